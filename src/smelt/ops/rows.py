"""A number for each row of a tensor, found once and then at hand for every pass and for the merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from smelt.ops.block import Block, Place
from smelt.ops.fold import Fold

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RowNumbers"]


class RowNumbers(Fold):
    """`of` maps a block to one float32 number for each of its rows; a stage receives those of its block."""

    def __init__(self, of: Callable[[Block], Tensor]):
        self._of = of
        self._found: dict[int, npt.NDArray[np.float32]] | None = None

    @property
    def wants_pass(self) -> bool:
        return self._found is None

    def look(self, block: Block) -> dict[int, npt.NDArray[np.float32]]:
        return {block.place.start: self._of(block).cpu().numpy()}

    def join(self, left: Any, right: Any) -> Any:
        left.update(right)
        return left

    def absorb(self, total: Any) -> None:
        self._found = total

    def at(self, place: Place) -> npt.NDArray[np.float32]:
        assert self._found is not None
        return self._found[place.start]
