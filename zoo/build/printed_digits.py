"""Printed digits: in random colours, in font families that no letter was learned from."""

from __future__ import annotations

import digits
import printed
from pictures import TaskPictures


def build(every: int = 1) -> TaskPictures:
    return printed.build(printed.DIGITS, digits.CLASSES, every, val=150, test=1_000)
