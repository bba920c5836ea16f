"""Ways to work on a span: eagerly in torch, which takes everything, or fused, where an item can be run so.

On a CPU the fused way is a machine in C, on a GPU the same operations in torch (`engine/run/gpu/backend.py`).
Both give the same numbers. Torch is loaded when the first item needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from smelt.engine.plan.limits import work_memory

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, Plan
    from smelt.engine.run.blocks import Blocking, Span
    from smelt.engine.run.eager import Eager
    from smelt.ops.fold import Fold

__all__ = ["Advance", "Sink", "Watcher", "Way", "Ways", "Write", "load_what_it_needs"]

Write: TypeAlias = "Callable[[Item, int, memoryview], None]"
Advance: TypeAlias = Callable[[int], None]


class Sink(Protocol):
    """Where merged numbers go."""

    def write(self, item: Item, start: int, values: memoryview) -> None:
        """Take the elements of a tensor from `start` on, in its output dtype. Called from any thread."""

    def done(self, item: Item) -> None:
        """All of the tensor is written. Called from one thread."""

    def write_all(self, items: Sequence[Item], values: memoryview) -> None:
        """Take whole tensors that lie one after the other. Called from any thread."""
        begin = 0
        for item in items:
            self.write(item, 0, values[begin : begin + item.info.nbytes])
            begin += item.info.nbytes

    def done_all(self, items: Sequence[Item]) -> None:
        """All of these tensors are written. Called from one thread."""
        for item in items:
            self.done(item)


class Watcher(Protocol):
    """Who wants to know how far a run has come."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


class Way(Protocol):
    """How the spans of an item are worked on, from several threads at once."""

    def small(self, item: Item) -> bool:
        """Whether the item is worked on together with its neighbours (`merge_all`)."""

    def spans(self, item: Item) -> list[Span]:
        """How the item is cut: the same whatever the threads and the memory."""

    def samples(self, item: Item) -> bool:
        """Whether `look` can show a fold a sample of the item."""

    def look(self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, watched: bool) -> Any:
        """What a span contributes to the fold of the stage at `index`; `folds` are those of the stages before it."""

    def merge(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        """Merge a span and write it."""

    def merge_all(self, items: Sequence[Item], folds: Sequence[Mapping[int, Fold]]) -> memoryview:
        """What small items become, merged or copied, one after the other; good until the thread's next call."""

    def copy(self, item: Item, span: Span) -> None:
        """Write a span of the base as it is."""


class Ways:
    """The way of each item of a run."""

    def __init__(self, seed: int, device: str, write: Write, advance: Advance, work: int = 0):
        """`work` is the number of bytes that the plan reads; a CPU need not know."""
        self._seed, self._device, self._write, self._advance = seed, device, write, advance
        self._lock = threading.Lock()
        self._eager: Eager | None = None
        self._fused: Any = None
        if device == "cpu":
            from smelt.engine.run.cpu.backend import fused

            self._fused = fused(seed, write, advance)
        else:
            from smelt.engine.run.gpu.backend import on_device

            self._fused = on_device(seed, device, write, advance, work)

    def of(self, item: Item) -> Way:
        return self._fused if self._fused is not None and self._fused.takes(item) else self.eager()

    def memory(self, item: Item, blocking: Blocking) -> int:
        """Bytes that an item takes beside what each thread has anyway, which is all that the way to a GPU takes."""
        return 0 if self._device != "cpu" and self.of(item) is self._fused else work_memory(item, blocking)

    def close(self) -> None:
        for way in (self._fused, self._eager):
            if way is not None:
                way.close()

    def eager(self) -> Eager:
        with self._lock:
            if self._eager is None:
                from smelt.engine.run.eager import Eager

                self._eager = Eager(self._seed, self._device, self._write, self._advance)
            return self._eager


def load_what_it_needs(plan: Plan, device: str) -> None:
    """Load torch now, while inputs are being hashed, if some item will be run in it."""
    from smelt.engine.run.cpu.library import library
    from smelt.engine.run.cpu.support import Takes

    if device != "cpu" or library() is None or not all(map(Takes(), (item.parts[0] for item in plan.items))):
        import smelt.engine.run.eager  # noqa: F401
