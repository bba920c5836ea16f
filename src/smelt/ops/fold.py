"""Folds: numbers about a whole tensor or a whole model, gathered block by block.

A stage that needs such a number declares `prepare=`, a function of its parameters that returns a Fold.
The engine then streams the blocks past `look` (in any thread), joins the parts in the order of their
places, hands the total to `absorb`, and repeats while the fold wants another pass. Afterwards
`at(place)` gives what the stage receives for a block. No fold ever holds a tensor of the model's size, and each says
how much it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from smelt.ops.block import Block, Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Chain", "Fold", "RowNumbers", "Scope", "Sum", "Totals"]

Scope: TypeAlias = Literal["tensor", "model"]


class Fold(ABC):
    """One streamed reduction. Parts must join associatively, so that threads cannot change the result."""

    scope: Scope = "tensor"
    passes: int = 1
    """How many passes over all entries it takes at most."""
    joins_exactly: bool = False
    """Whether neighbouring parts may be joined before they are joined to those before them: not where sums round."""

    @property
    @abstractmethod
    def wants_pass(self) -> bool:
        """Whether the blocks must stream past once more."""

    def sampled(  # noqa: B027 - most folds need every entry
        self, count: int, models: int = 1, room: int | None = None
    ) -> None:
        """Whoever streams the blocks of so many entries can also show a sample of them, if the fold can use it.

        `room` is how many bytes it may hold; None leaves that to the fold. Whatever it is, the fold finds the same.
        """

    def holds(self, count: int, models: int, room: int) -> int:
        """Bytes that it holds at most between blocks of so many entries, where it may hold `room` and less would do.

        It can be more than `room` if it cannot be less; with no room it is the least. A few sums are not worth telling.
        """
        return 0

    @abstractmethod
    def look(self, block: Block) -> Any:
        """The part that this block contributes. Must not change the fold."""

    @abstractmethod
    def join(self, left: Any, right: Any) -> Any:
        """Two parts into one; `left` comes from earlier places."""

    @abstractmethod
    def absorb(self, total: Any) -> None:
        """Take in the joined parts of one complete pass."""

    @abstractmethod
    def at(self, place: Place) -> Any:
        """What the stage receives for the block at this place."""


class Sum(Fold):
    """Sums of a small tensor over all blocks, in float64, turned into the stage's number at the end.

    `of` maps a block to the tensor to add up; `then` maps the total to what the stage receives.
    """

    def __init__(self, of: Callable[[Block], Tensor], then: Callable[[Tensor], Any], scope: Scope = "tensor"):
        self.of, self._then, self.scope = of, then, scope
        self._result: Any = None
        self._done = False

    @property
    def wants_pass(self) -> bool:
        return not self._done

    def look(self, block: Block) -> Tensor:
        import torch

        return self.of(block).to("cpu", torch.float64)

    def join(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right

    def absorb(self, total: Tensor) -> None:
        self._result, self._done = self._then(total), True

    def at(self, place: Place) -> Any:
        return self._result


class Totals(Sum):
    """The same in numpy: what turns such totals into numbers needs no torch, nor does the vector machine that sums."""

    if TYPE_CHECKING:

        def __init__(
            self, of: Callable[[Block], Tensor], then: Callable[[NDArray[np.float64]], Any], scope: Scope = "tensor"
        ): ...

    def look(self, block: Block) -> Any:
        return super().look(block).numpy()


class Chain(Fold):
    """A fold that needs another's result: `second(place -> first's)` starts when the first is done.

    A stage receives the pair of both results.
    """

    def __init__(self, first: Fold, second: Callable[[Callable[[Place], Any]], Fold]):
        self.scope = first.scope
        self.first = first
        self.second: Fold = second(first.at)
        self.passes = first.passes + self.second.passes

    @property
    def current(self) -> Fold:
        """The one whose pass is next."""
        return self.first if self.first.wants_pass else self.second

    @property
    def wants_pass(self) -> bool:
        return self.current.wants_pass

    @property
    def joins_exactly(self) -> bool:  # type: ignore[override]
        return self.current.joins_exactly

    def sampled(self, count: int, models: int = 1, room: int | None = None) -> None:
        self.first.sampled(count, models, room)

    def holds(self, count: int, models: int, room: int) -> int:
        return max(self.first.holds(count, models, room), self.second.holds(count, models, 0))

    def look(self, block: Block) -> Any:
        return self.current.look(block)

    def join(self, left: Any, right: Any) -> Any:
        return self.current.join(left, right)

    def absorb(self, total: Any) -> None:
        self.current.absorb(total)

    def at(self, place: Place) -> tuple[Any, Any]:
        return self.first.at(place), self.second.at(place)


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
