"""Small letters: in random colours, in font families that no capital was learned from."""

from __future__ import annotations

import printed
from pictures import TaskPictures


def build(every: int = 1) -> TaskPictures:
    return printed.build(printed.SMALL, list(printed.SMALL), every, val=260, test=1_000)
