"""Which codes share a scale, told from the shapes of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.formats.quantised.settings import QuantisationSettings

__all__ = ["Grid", "Matrices", "grid_of", "matrices_of"]

_USUAL = 128
"""The side of blocks of 8-bit floats, where the config names none."""


@dataclass(frozen=True)
class Matrices:
    """A tensor as matrices of one size."""

    count: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Grid:
    """The scales of one matrix."""

    rows: int
    columns: int
    block: tuple[int, int]
    """Rows and columns of codes that share a scale."""
    per_matrix: bool
    """Whether each matrix has a grid of its own."""


def matrices_of(shape: tuple[int, ...]) -> Matrices:
    """The last two axes are a matrix; a vector is one row."""
    return Matrices(math.prod(shape[:-2]), shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1)


def grid_of(
    settings: QuantisationSettings,
    codes: str,
    shape: tuple[int, ...],
    scales: str,
    scale_shape: tuple[int, ...],
    configured: tuple[int, int] | None = None,
) -> Grid:
    """The grid of `scales` over `codes`, whose shape counts codes; CorruptFile where it fits in no way.

    `configured` is the size of blocks that the config names for these codes.
    """
    own = matrices_of(shape)
    if math.prod(scale_shape) == 1:
        return Grid(1, 1, (own.rows, own.columns), per_matrix=False)
    sides = _sides(own, shape, scale_shape)
    if sides is None:
        raise settings.fault(f"{scales!r} is {scale_shape}, which are no scales of {codes!r} {shape}")
    sizes = configured or (None, None)
    high, wide = (_block(*side) for side in zip((own.rows, own.columns), sides, sizes, strict=True))
    if high is None or wide is None:
        said = f", nor into the weight_block_size {list(configured)} of config.json" if configured else ""
        raise settings.fault(
            f"{codes!r} {shape} does not divide into the {sides[0]} by {sides[1]} blocks of {scales!r}{said}"
        )
    return Grid(*sides, (high, wide), per_matrix=True)


def _sides(own: Matrices, shape: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, int] | None:
    """Rows and columns of scales for each matrix."""
    if len(scales) == len(shape) >= 2 and scales[:-2] == shape[:-2]:
        return scales[-2], scales[-1]
    if scales == shape[:-1]:
        return own.rows, 1
    if scales == shape[:-2]:
        return 1, 1
    return None


def _block(whole: int, blocks: int, configured: int | None) -> int | None:
    """How many codes lie in each of so many blocks; the last one may have fewer where the size is known."""
    if blocks == 1:
        return whole
    if blocks == whole:
        return 1
    size = configured or _USUAL
    if -(-whole // size) == blocks:
        return size
    return whole // blocks if blocks and whole % blocks == 0 and not configured else None
