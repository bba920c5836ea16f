"""Which backend works on an item, and how much memory and how many threads a run takes.

The eager backend (torch) takes every item. The vector machine takes what it has rules for: on a CPU it is C (`cpu/`),
on a GPU the same operations are generated kernels (`gpu/`). On a CPU both give the same bits;
docs/explanation/architecture.md ("Determinism") says what holds on a GPU. Torch is loaded when the first item needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.engine.plan.plan import SUMMARIES, Blocking, Item, Plan
from smelt.errors import RecipeError
from smelt.recipe.schema import parse_size
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    import torch

    from smelt.engine.run.backend import Advance, Backend, PlaceOf, Write
    from smelt.engine.run.eager import EagerBackend
    from smelt.files.hashing.input_hashes import InputHashes

__all__ = ["AT_ONCE", "Backends", "RunLimits", "preload_torch", "run_limits", "work_memory"]


_USUAL = 320 << 20
"""Bytes of work memory that a run may take, unless it is told or a piece needs more."""
_SENT = 8 << 30
"""The same of matrices that go to GPUs: they lie in pinned memory, which others cannot use."""
AT_ONCE = 8
"""Blocks or matrices that a GPU works on at once in torch: while one is read another is computed, and a factorisation
leaves most of a GPU idle."""


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
    """Threads as asked for, but no more than fit: by default within 320 MiB, or twice what the largest piece takes.

    Of matrices that GPUs work on, all that they can have at once, within 8 GiB; GPUs look after their own memory
    (workspace.py).
    """
    kind = device.split(":")[0]
    blocking = Blocking.for_device(kind)
    item = max(plan.items, key=lambda one: _memory_here(one, blocking, kind))
    largest = max(1, _memory_here(item, blocking, kind))
    usual = _USUAL
    if kind == "cuda" and _is_whole(item):
        usual = max(usual, min(AT_ONCE * _gpu_count(device) * largest, _SENT))
    limit = max(2 * largest, usual) if memory is None else parse_size(memory)
    if largest > limit:
        raise RecipeError(
            f"{item.key!r} alone needs {largest / 1e6:.0f} MB of work memory, "
            f"more than the limit of {limit / 1e6:.0f} MB"
        )
    wanted = threads or usable_cores()
    return RunLimits(wanted if kind == "cuda" else max(1, min(wanted, limit // largest)), limit, largest)


def work_memory(item: Item, blocking: Blocking) -> int:
    """Bytes that working on this item takes: inputs, float32 stack, and a few temporaries of the stack's size.

    A matrix is decomposed in float64, whose temporaries are larger; statistics of whole matrices are kept in it.
    Of a stack of matrices each is worked on by itself.
    """
    item = item if item.whole is not None else item.matrix_items[0]
    rows = len(item.taps) + 2
    if _is_whole(item):
        sizes = [tap.source.tensors[tap.key].count for tap in item.statistics]
        each = 8 if item.statistics_kind in SUMMARIES else 4
        return 4 * item.info.count * rows * 6 + each * sum(sizes) + 8 * 5 * max(sizes, default=0)
    rows += len(item.statistics)
    return 4 * min(blocking.block(item), item.info.count) * rows * 3


def _is_whole(item: Item) -> bool:
    """Whether its stages are given all of it at once."""
    return item.unit in ("tensor", "matrix")


def _memory_here(item: Item, blocking: Blocking, kind: str) -> int:
    """Bytes of this machine's memory: of a matrix that a GPU works on, only what goes there and what comes back."""
    if kind == "cpu" or not _is_whole(item):
        return work_memory(item, blocking)
    each = 8 if item.statistics_kind in SUMMARIES else 4
    statistics = sum(tap.source.tensors[tap.key].count for tap in item.statistics)
    taps = sum(tap.source.tensors[tap.key].nbytes for tap in item.all_taps)
    return (taps + each * statistics + item.info.nbytes) // len(item.matrix_items)


def _gpu_count(device: str) -> int:
    """How many GPUs a run has: all, unless one is named."""
    from smelt.system.hardware import usable_gpus

    return max(1, len(usable_gpus().found)) if device == "cuda" else 1


class Backends:
    """The backend of each item of a run."""

    def __init__(
        self,
        seed: int,
        device: str,
        write: Write,
        advance: Advance,
        work: int = 0,
        spread: Sequence[torch.device] = (),
        *,
        place_of: PlaceOf | None = None,
        hashes: InputHashes | None = None,
    ):
        """`work` is the number of bytes that the plan reads, `spread` the GPUs of whole matrices; a CPU need not know
        them.
        """
        self._seed, self._device, self._write, self._advance = seed, device, write, advance
        self._spread = spread
        self._lock = threading.Lock()
        self._eager: EagerBackend | None = None
        self._vector: Any = None
        if device == "cpu":
            from smelt.engine.run.cpu.backend import vector_backend

            self._vector = vector_backend(seed, write, advance, place_of, hashes)
        else:
            from smelt.engine.run.gpu.backend import gpu_backend

            self._vector = gpu_backend(seed, device, write, advance, work)

    def of(self, item: Item) -> Backend:
        return self._vector if self._vector is not None and self._vector.supports(item) else self.eager()

    def memory(self, item: Item, blocking: Blocking) -> int:
        """Bytes that an item takes beside what each thread has anyway, which is all that a GPU backend takes."""
        if self._device != "cpu" and self.of(item) is self._vector:
            return 0
        return _memory_here(item, blocking, self._device.split(":")[0])

    def close(self) -> None:
        for backend in (self._vector, self._eager):
            if backend is not None:
                backend.close()

    def eager(self) -> EagerBackend:
        with self._lock:
            if self._eager is None:
                from smelt.engine.run.eager import EagerBackend

                self._eager = EagerBackend(self._seed, self._device, self._write, self._advance, self._spread)
            return self._eager


def preload_torch(plan: Plan, device: str) -> None:
    """Load torch now, while inputs are being hashed, if some item will be run in it.

    For a GPU it is being loaded since the merge began (gpu/start.py).
    """
    from smelt.engine.run.cpu.machine import library
    from smelt.engine.run.cpu.rule_table import Support

    if device != "cpu":
        return
    if library() is None or not all(map(Support(), (item.matrix_items[0] for item in plan.items))):
        import smelt.engine.run.eager  # noqa: F401
