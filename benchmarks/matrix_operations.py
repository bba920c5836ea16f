"""How many floating-point operations a matrix method needs: what no known way avoids.

In: a method, the number of models, a shape. Out: operations in float64, operations for which float32 is enough (the
last product, whose result is float32), and the sizes of the decompositions among the former. A multiplication with an
addition counts as two. Symmetric results count half. Of a decomposition only the directions that are kept count, though
no library that we have gives fewer than all for less. So the floor is a hard one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

COMMON = 0.8
"""The share that iso_cts gives to common directions, by default."""


def eigen(size: int, kept: int) -> float:
    """Of a symmetric matrix: to tridiagonal form, divide and conquer without deflation, and back for those kept."""
    return 4 / 3 * size**3 + (size**3 / 3 + size**2 * kept) + 2 * size**2 * kept


class Needed(NamedTuple):
    """Operations of one matrix of all models."""

    float64: float
    float32: float
    decomposed: list[tuple[int, int]]
    """Of float64: the sizes of symmetric matrices, and how many of their eigenvectors are kept."""


def tsv(models: int, long: int, short: int, wide: bool) -> Needed:
    kept = max(1, short // models)
    width = models * kept
    each = long * short**2 + eigen(short, kept) + 2 * long * short * kept
    whitened = 0.0
    for length in (long, short):
        whitened += length * width**2 * (1 - 1 / models)
        if (
            models == 2
        ):  # from the singular vectors of the one block that is not the identity, applied to the short side
            whitened += kept**3 + eigen(kept, kept) + 2 * kept**3 + 8 * kept**2 * short
        elif models > 2:
            whitened += eigen(width, width) + width**3 + 2 * width**2 * short
    turned = {1: [], 2: [(kept, kept)] * 2}.get(models, [(width, width)] * 2)
    return Needed(models * each + whitened, 2 * long * width * short, [(short, kept)] * models + turned)


def iso_c(models: int, long: int, short: int, wide: bool) -> Needed:
    return Needed(long * short**2 + eigen(short, short) + short**3, 2 * long * short**2, [(short, short)])


def iso_cts(models: int, long: int, short: int, wide: bool) -> Needed:
    own = min(round((short - int(COMMON * short)) / models), short // models)
    common, owns = short - models * own, models * own
    shared = long * short**2 + eigen(short, short if wide else common) + 2 * long * short * common
    if wide:  # what is left lies in the few directions of the short side that are not common
        left = short - common
        each = 2 * long * short * left + long * left**2 + eigen(left, own) + 2 * long * left * own
    else:
        each = 2 * long * short * common + long * short**2 + common * short**2 + eigen(short, own)
        each += 2 * long * (short + common) * own
    length = long if wide else short
    whitened = 2 * length * common * owns + 2 * common * owns**2 + eigen(2 * owns, 2 * owns) + 8 * owns**3
    whitened += 4 * common * owns * short + 8 * owns**2 * short
    decomposed = [(short, short if wide else common)]
    if not own:
        return Needed(shared, 2 * long * short**2, decomposed)
    decomposed += [(short - common if wide else short, own)] * models + [(2 * owns, 2 * owns)]
    return Needed(shared + each * models + whitened, 2 * long * short**2, decomposed)


OPERATIONS: dict[str, Callable[[int, int, int, bool], Needed]] = {
    "tsv": tsv,
    "iso_c": iso_c,
    "iso_cts": iso_cts,
}


def operations(method: str, models: int, rows: int, columns: int) -> Needed:
    """Of one matrix of all models."""
    return OPERATIONS[method](models, max(rows, columns), min(rows, columns), rows <= columns)
