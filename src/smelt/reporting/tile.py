"""One large number at the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tile"]


@dataclass(frozen=True)
class Tile:
    """One large number, in percent unless it says otherwise. `meter` is the length of a bar, from 0 to 1."""

    title: str
    text: str
    below: str
    best: bool = False
    meter: float | None = None
    unit: str = "%"
