"""A block: the piece of one tensor that a stage sees, and the place it was cut from.

Blocks are what flows through `methods` and `ops`. They carry numbers and a place, never a file or a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.ops.random import PlaceRandom

__all__ = ["Block", "Place", "Stack"]

Stack: TypeAlias = Annotated["Tensor", "one row per model"]
"""One row per model: `(models, elements)`, `(models, rows, columns)` or `(models, *shape)`.

A plan needs no torch, so its name alone stands here; unlike a plain string, `Stack | None` works at run time too.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block lies: elements `start` to `stop` of the flattened tensor `key`."""

    key: str
    order: int
    """Position of the tensor in the output, so that places sort."""
    shape: tuple[int, ...]
    start: int
    stop: int
    depth: float
    """0 at the first block of the network, 1 at the last."""
    models: tuple[str, ...]
    """The names of the models in the stack, in its order."""
    turned: tuple[int, ...] | None = None
    """The shape [out, in] of the matrices whose elements stand here as [in, out], where that is so: random numbers
    belong to an element, wherever it is stored."""


@dataclass(frozen=True, slots=True)
class Block:
    """What the models (and the base, where there is one) hold at a place, in float32."""

    stack: Stack
    base: Tensor | None
    place: Place
    rng: PlaceRandom | None = None
    """The randomness of the stage that looks at the block."""
    statistics: Stack | None = None
    """What is known about each model at this place: aligned with the stack, or the whole statistic of a matrix."""
