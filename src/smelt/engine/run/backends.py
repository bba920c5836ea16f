"""Which backend works on an item, and how much memory and how many threads a run takes.

The eager backend (torch) takes every item. The vector machine takes what it has rules for: on a CPU it is C (`cpu/`),
on a GPU the same operations are generated kernels (`gpu/`). On a CPU both give the same bits;
docs/explanation/architecture.md ("Determinism") says what holds on a GPU. Torch is loaded when the first item needs it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.engine.plan.plan import SUMMARIES, Blocking, Item, Plan
from smelt.errors import RecipeError
from smelt.recipe.schema import parse_size
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    from smelt.engine.run.backend import Advance, Backend, Write
    from smelt.engine.run.eager import EagerBackend

__all__ = ["Backends", "RunLimits", "preload_torch", "run_limits", "work_memory"]


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
    wanted = threads or usable_cores()
    return RunLimits(wanted if device == "cuda" else max(1, min(wanted, limit // largest)), limit, largest)


def work_memory(item: Item, blocking: Blocking) -> int:
    """Bytes that working on this item takes: inputs, float32 stack, and a few temporaries of the stack's size.

    A matrix is decomposed in float64, whose temporaries are larger; statistics of whole matrices are kept in it.
    Of a stack of matrices each is worked on by itself.
    """
    item = item.matrix_items[0]
    rows = len(item.taps) + 2
    if item.unit in ("tensor", "matrix"):
        sizes = [tap.source.tensors[tap.key].count for tap in item.statistics]
        each = 8 if item.statistics_kind in SUMMARIES else 4
        return 4 * item.info.count * _rows_of_whole(item) + each * sum(sizes) + 8 * 5 * max(sizes, default=0)
    rows += len(item.statistics)
    return 4 * min(blocking.block(item), item.info.count) * rows * 3


def _rows_of_whole(item: Item) -> int:
    """Float32 rows, inputs among them, that work on a whole tensor takes at its peak, for square matrices.

    Measured: methods that decompose matrices take one model at a time, whose float64 copies, factors and eigenvectors
    are alike for few models and many; a basis keeps the coordinates of all models beside them, in both precisions.
    """
    models = len(item.taps)
    if item.unit == "tensor":
        return 6 * (models + 2)
    if any(run.stage.kind == "basis" for run in item.stages):
        return 8 * (models + 2)
    return 22 + 2 * models


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
    from smelt.engine.run.cpu.rule_table import Support

    if device != "cpu" or library() is None or not all(map(Support(), (item.matrix_items[0] for item in plan.items))):
        import smelt.engine.run.eager  # noqa: F401
