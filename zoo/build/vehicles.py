"""Vehicles: emoji and icons by noun, of vendors and icon sets never trained on."""

from __future__ import annotations

import nouns
from pictures import TaskPictures


def build(every: int = 1) -> TaskPictures:
    return nouns.of_emoji_and_icons("vehicles", every)
