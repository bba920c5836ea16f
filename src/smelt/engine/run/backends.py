"""Backends: how an item is cut into spans and blocks, what that costs, and which backend works on it.

A span is a run of a tensor's elements that one thread works off, block by block. Sizes depend on the recipe and the
backend alone, never on threads or memory, so that sums over blocks come out the same to the last bit.

The eager backend (torch) takes every item. A fused one takes what it supports: on a CPU a machine in C (`cpu/`), on a
GPU the same operations as generated kernels (`gpu/`). On a CPU both give the same bits; docs/architecture.md
("Determinism") says what holds on a GPU. Torch is loaded when the first item needs it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from smelt.engine.plan.plan import SUMMARIES, Item, Plan
from smelt.errors import RecipeError
from smelt.ops.block import Place
from smelt.recipe.schema import parse_size
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, Plan
    from smelt.engine.run.eager import EagerBackend
    from smelt.ops.fold import Fold

__all__ = [
    "Advance",
    "Backend",
    "Backends",
    "Blocking",
    "ProgressListener",
    "RunLimits",
    "Sink",
    "Span",
    "Write",
    "default_threads",
    "place_of",
    "preload_torch",
    "row_length",
    "run_limits",
    "stack_shape",
    "work_memory",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A run of a tensor's elements that one thread works off, block by block."""

    start: int
    stop: int
    step: int

    def blocks(self) -> Iterator[tuple[int, int]]:
        for start in range(self.start, self.stop, self.step):
            yield start, min(start + self.step, self.stop)


@dataclass(frozen=True, slots=True)
class Blocking:
    """How large blocks and spans are: `stack` is the number of elements that all models of a block have together."""

    stack: int
    blocks_per_span: int

    @classmethod
    def for_device(cls, kind: str) -> Blocking:
        """Large enough to outlast the work around each operation (launches on a GPU; on a CPU the hand-over of the
        interpreter lock between threads), small enough for the caches. Both measured: docs/log.md.
        """
        return cls(1 << 24, 1) if kind == "cuda" else cls(3 << 19, 4)

    def block(self, item: Item) -> int:
        """Elements per model of a block: a power of two, unless it is tiny."""
        share = self.stack // max(1, len(item.all_taps) + len(item.statistics))
        return 1 << (share.bit_length() - 1) if share >= 1024 else max(1, share)

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        if item.unit in ("tensor", "matrix"):
            return [Span(0, count, count)] if count else []
        step = self.block(item)
        if item.unit == "row":
            columns = row_length(item.info.shape)
            step = max(1, step // columns) * columns
        width = step * self.blocks_per_span
        return [Span(start, min(start + width, count), step) for start in range(0, count, width)]


def row_length(shape: tuple[int, ...]) -> int:
    """Elements of a row: all that belong to one index of the first axis; a vector is a single row."""
    return math.prod(shape[1:]) if len(shape) > 1 else max(1, math.prod(shape))


def place_of(item: Item, start: int, stop: int) -> Place:
    """Elements `start` to `stop` of an item, as stages know them."""
    names = tuple(tap.model for tap in item.taps)
    turned = item.matrices.shape if item.whole is None and item.matrices and item.matrices.transposed else None
    return Place(
        item.key, item.order, item.info.shape, item.first + start, item.first + stop, item.depth, names, turned
    )


def stack_shape(item: Item, place: Place) -> tuple[int, ...]:
    """The shape (without the models) in which a unit sees its block."""
    count = place.stop - place.start
    if item.unit == "element":
        return (count,)
    if item.unit in ("tensor", "matrix"):
        return item.info.shape
    columns = row_length(item.info.shape)
    return (count // columns, columns)


_USUAL = 320 << 20
"""Bytes of work memory that a run may take, unless it is told or a piece needs more."""


@dataclass(frozen=True)
class RunLimits:
    """What a run may use."""

    threads: int
    memory: int
    largest: int
    """Bytes that work on the largest piece takes."""

    @property
    def peak(self) -> int:
        """Bytes of work memory when every thread has the largest piece, or as many threads as may."""
        return min(self.memory, self.threads * self.largest)


def run_limits(plan: Plan, threads: int | None, memory: int | str | None, device: str = "cpu") -> RunLimits:
    """Threads as asked for, but no more than fit: by default within 320 MiB, or twice what the largest piece takes."""
    blocking = Blocking.for_device(device)
    item = max(plan.items, key=lambda one: work_memory(one, blocking))
    largest = max(1, work_memory(item, blocking))
    limit = max(2 * largest, _USUAL) if memory is None else parse_size(memory)
    if largest > limit:
        raise RecipeError(
            f"{item.key!r} alone needs {largest / 1e6:.0f} MB of work memory, "
            f"more than the limit of {limit / 1e6:.0f} MB"
        )
    wanted = threads or default_threads()
    return RunLimits(wanted if device == "cuda" else max(1, min(wanted, limit // largest)), limit, largest)


def default_threads() -> int:
    """As many as the cores this process may use."""
    return usable_cores()


def work_memory(item: Item, blocking: Blocking) -> int:
    """Bytes that working on this item takes: inputs, float32 stack, and a few temporaries of the stack's size.

    A matrix is decomposed in float64, whose temporaries are larger; statistics of whole matrices are kept in it.
    Of a stack of matrices each is worked on by itself.
    """
    item = item.parts[0]
    rows = len(item.taps) + 2
    if item.unit in ("tensor", "matrix"):
        sizes = [tap.source.tensors[tap.key].count for tap in item.statistics]
        each = 8 if item.statistics_kind in SUMMARIES else 4
        return 4 * item.info.count * rows * 6 + each * sum(sizes) + 8 * 5 * max(sizes, default=0)
    rows += len(item.statistics)
    return 4 * min(blocking.block(item), item.info.count) * rows * 3


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


class ProgressListener(Protocol):
    """Who wants to know how far a run has come."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


class Backend(Protocol):
    """How the spans of an item are worked on, from several threads at once."""

    def is_small(self, item: Item) -> bool:
        """Whether the item is worked on together with its neighbours (`merge_small`)."""

    def spans(self, item: Item) -> list[Span]:
        """How the item is cut: the same whatever the threads and the memory."""

    def can_sample(self, item: Item) -> bool:
        """Whether `fold_span` can show a fold a sample of the item."""

    def fold_span(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, shows_progress: bool
    ) -> Any:
        """What a span contributes to the fold of the stage at `index`; `folds` are those of the stages before it."""

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        """Merge a span and write it."""

    def merge_small(self, items: Sequence[Item], folds: Sequence[Mapping[int, Fold]]) -> memoryview:
        """What small items become, merged or copied, one after the other; good until the thread's next call."""

    def copy_span(self, item: Item, span: Span) -> None:
        """Write a span of the base as it is."""


class Backends:
    """The backend of each item of a run."""

    def __init__(self, seed: int, device: str, write: Write, advance: Advance, work: int = 0):
        """`work` is the number of bytes that the plan reads; a CPU need not know."""
        self._seed, self._device, self._write, self._advance = seed, device, write, advance
        self._lock = threading.Lock()
        self._eager: EagerBackend | None = None
        self._vector: Any = None
        if device == "cpu":
            from smelt.engine.run.cpu.backend import vector_backend

            self._vector = vector_backend(seed, write, advance)
        else:
            from smelt.engine.run.gpu.backend import gpu_backend

            self._vector = gpu_backend(seed, device, write, advance, work)

    def of(self, item: Item) -> Backend:
        return self._vector if self._vector is not None and self._vector.supports(item) else self.eager()

    def memory(self, item: Item, blocking: Blocking) -> int:
        """Bytes that an item takes beside what each thread has anyway, which is all that a GPU backend takes."""
        return 0 if self._device != "cpu" and self.of(item) is self._vector else work_memory(item, blocking)

    def close(self) -> None:
        for backend in (self._vector, self._eager):
            if backend is not None:
                backend.close()

    def eager(self) -> EagerBackend:
        with self._lock:
            if self._eager is None:
                from smelt.engine.run.eager import EagerBackend

                self._eager = EagerBackend(self._seed, self._device, self._write, self._advance)
            return self._eager


def preload_torch(plan: Plan, device: str) -> None:
    """Load torch now, while inputs are being hashed, if some item will be run in it."""
    from smelt.engine.run.cpu.machine import library
    from smelt.engine.run.cpu.support import Support

    if device != "cpu" or library() is None or not all(map(Support(), (item.parts[0] for item in plan.items))):
        import smelt.engine.run.eager  # noqa: F401
