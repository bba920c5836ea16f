"""Names in the order in which people count: layers.2 before layers.10."""

from __future__ import annotations

import re

__all__ = ["natural"]


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key: layers.2 before layers.10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
