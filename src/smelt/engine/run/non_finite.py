"""What is said when a number is not finite: which model, which tensor, which element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import NumericalError
from smelt.recipe.patterns import skip_remedy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.plan.plan import Item, Tap

__all__ = ["refuse_inputs", "refuse_overflow", "refuse_result", "refuse_statistic"]


def refuse_inputs(item: Item, rows: Iterable[NDArray[np.float32]], start: int) -> None:
    """Raise for the first tap of an item whose numbers from `start` on are not all finite."""
    for row, tap in zip(rows, item.all_taps, strict=True):
        bad = _first(row)
        if bad is not None:
            remedy = "mend it" if tap is item.base else f"{skip_remedy(item.key)}, or mend the model"
            raise NumericalError(
                f"{tap.model} ({tap.source.label}) holds {float(row[bad])} in {tap.key!r} at element "
                f"{_stored(item, start + bad):,}; {remedy}"
            )


def refuse_result(item: Item, merged: NDArray[np.float32], start: int) -> None:
    """Raise where merged numbers are not all finite."""
    bad = _first(merged)
    if bad is not None:
        raise NumericalError(
            f"the merge gave {float(merged[bad])} in {item.name!r} at element {_stored(item, start + bad):,} although "
            f"all inputs are finite; check the weights and scales of the recipe, and whether {item.info.dtype} can "
            "hold it"
        )


def refuse_overflow(item: Item, before: NDArray[np.float32], after: NDArray[np.float32], start: int) -> None:
    """Raise where a copy in a smaller format turned a large number into infinity. What was not finite may stay so."""
    bad = _first(np.where(np.isfinite(before), after, 0))
    if bad is not None:
        raise NumericalError(
            f"{item.key!r} holds {float(before[bad])} at element {start + bad:,}, which {item.info.dtype} cannot hold; "
            "choose another dtype"
        )


def refuse_statistic(tap: Tap, row: NDArray[np.float32], start: int) -> None:
    bad = _first(row)
    if bad is not None:
        raise NumericalError(
            f"the statistics of {tap.model} ({tap.source.label}) hold {float(row[bad])} for {tap.key!r} at element "
            f"{start + bad:,}; measure them again"
        )


def _stored(item: Item, element: int) -> int:
    """The number of an element in the file, of a matrix that is merged as [out, in] and stored as [in, out]."""
    if item.whole is None or item.matrices is None or not item.matrices.transposed:
        return element
    rows, columns = item.info.shape
    return element % columns * rows + element // columns


def _first(row: NDArray[np.float32]) -> int | None:
    """The first number that is not finite."""
    bad = ~np.isfinite(row)
    return int(bad.argmax()) if bad.any() else None
