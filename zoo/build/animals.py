"""Animals: emoji by noun, in the drawings of vendors never trained on."""

from __future__ import annotations

import nouns
from pictures import TaskPictures


def build(every: int = 1) -> TaskPictures:
    return nouns.of_emoji("animals", every)
