"""A plug-in with references of its own: `box:name` is a folder below $BOX."""

from __future__ import annotations

import os
from pathlib import Path

from smelt.models.references import reference_scheme


@reference_scheme("box")
def in_box(name: str, *, allow_pickle: bool) -> Path:
    return Path(os.environ["BOX"]) / name
