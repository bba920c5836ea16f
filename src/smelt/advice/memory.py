"""What a method that looks at data would take, by the same count that `smelt plan` uses.

Where the base is at hand its own shapes are counted. Where only its size is known, they are those of the public model
that is nearest in size (`smelt/formats/sizes`), and the bytes are scaled by the parameters.
"""

from __future__ import annotations

from math import log, prod
from typing import TypeAlias

from smelt.advice.base import shapes_of
from smelt.advice.rules import rules
from smelt.advice.situation import Situation
from smelt.errors import RecipeError

__all__ = ["bytes_needed"]

_TOKENS = 512
"""Of a text of ordinary length, as the plan counts."""
_Shapes: TypeAlias = dict[str, tuple[int, ...]]


def bytes_needed(entry: str, situation: Situation) -> int:
    """Bytes for one model at a time, wherever they lie; 0 for a method that looks at no data: it streams."""
    from smelt.measurement.needs import METHODS, memory_needs

    if situation.memory is None or entry not in METHODS:
        return 0
    shapes, scale = _shapes(situation)
    # as much for Gram matrices as a measurement takes where nothing else is said: a quarter
    room = int(situation.memory / 4 / scale)
    needs = memory_needs(shapes, entry, examples=rules().examples, tokens=_TOKENS, memory=room)  # type: ignore[arg-type]
    return int(scale * needs.total)


def _shapes(situation: Situation) -> tuple[_Shapes, float]:
    """A model's shapes, and how much larger the base is than it."""
    from smelt.models.shapes import known_sizes

    own = shapes_of(situation.base) if situation.base else None
    if own is not None:
        return own, 1.0
    if situation.size is None:
        raise RecipeError("memory: how much a method needs follows from the model's size; give --size (8B) or --base")
    size = situation.size
    near = min(known_sizes().values(), key=lambda one: abs(log(one.parameters / 1e9 / size)))
    shapes = dict(near.shapes())
    return shapes, size * 1e9 / sum(map(prod, shapes.values()))
