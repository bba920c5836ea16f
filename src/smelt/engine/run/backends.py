"""Which backend works on an item, and how much memory and how many threads a run takes.

The eager backend (torch) takes every item. The vector machine takes what it has rules for: on a CPU it is C (`cpu/`),
on a GPU the same operations are generated kernels (`gpu/`). On a CPU both give the same bits;
docs/explanation/architecture.md ("Determinism") says what holds on a GPU. Torch is loaded when the first item needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from smelt.engine.plan.plan import Blocking, Item, Plan
from smelt.engine.run.streamed_inputs import streaming_room
from smelt.engine.run.work_memory import FoldRooms, ModelFold, WorkMemory, is_whole, memory_here, model_folds
from smelt.errors import RecipeError
from smelt.recipe.schema import parse_size
from smelt.system.process import spare_memory, usable_cores

if TYPE_CHECKING:
    import torch

    from smelt.engine.run.backend import Advance, Backend, PlaceOf, Write
    from smelt.engine.run.eager import EagerBackend
    from smelt.files.hashing.input_hashes import InputHashes

__all__ = ["AT_ONCE", "WINDOW", "Backends", "RunLimits", "needs_torch", "preload_torch", "run_limits"]


_USUAL = 320 << 20
"""Bytes of work memory that a run may take, unless it is told or a piece needs more."""
_SENT = 8 << 30
"""The same of matrices that go to GPUs: they lie in pinned memory, which others cannot use."""
AT_ONCE = 8
"""Blocks or matrices that a GPU works on at once in torch: while one is read another is computed, and a factorisation
leaves most of a GPU idle."""
WINDOW = 4
"""Workflows that may be under way for each thread."""


@dataclass(frozen=True)
class RunLimits:
    """What a run may use."""

    threads: int
    memory: int
    largest: int
    """Bytes that a thread takes for the largest piece."""
    room: int
    """Bytes that are left for what folds hold, and on a GPU for all that is under way."""
    held: int
    """What folds will hold of it at most."""
    streamed: int = 0
    """Bytes that are held of inputs on servers, beside all this."""

    @property
    def peak(self) -> int:
        """Bytes of work memory when every thread has the largest piece and folds hold the most."""
        return min(self.memory, self.threads * self.largest + self.held) + self.streamed


def run_limits(plan: Plan, threads: int | None, memory: int | str | None, device: str = "cpu") -> RunLimits:
    """Threads as asked for, but no more than fit: by default within 320 MiB, or twice what the largest piece takes.

    What folds would like to hold is left to them, up to half of the limit: with fewer threads and brackets a merge is
    over sooner than with more threads and histograms. Whole matrices are large, and worth a thread each: a quarter of
    the memory that is free may be taken for them. Of matrices that GPUs work on, all that they can have at once, within
    8 GiB; GPUs look after their own memory (workspace.py).
    """
    kind = device.split(":")[0]
    work = WorkMemory(kind)
    sizes = [(work.of_thread(item), work.of_folds(item, 0)) for item in plan.items]
    folds = list(model_folds(plan))
    of_model = max((work.of_model_fold(one, 0) for one in folds), default=0)
    largest = max(1, max(thread for thread, _ in sizes))
    number = max(range(len(sizes)), key=lambda one: sum(sizes[one]))
    least = max(largest, sum(sizes[number])) + of_model
    wanted, usual = threads or usable_cores(), _USUAL
    if is_whole(plan.items[number]):
        most = (
            min(AT_ONCE * _gpu_count(device) * largest, _SENT)
            if kind == "cuda"
            else min(wanted * least, spare_memory())
        )
        usual = max(usual, most)
    given = None if memory is None else parse_size(memory)
    streamed = streaming_room(given, least) if plan.is_streamed else 0
    limit = max(2 * least, usual) if given is None else given - streamed
    if least > limit:
        afar = f" and {streamed / 1e6:.0f} MB for what comes from afar" if streamed else ""
        raise RecipeError(
            f"{plan.items[number].key!r} alone needs {least / 1e6:.0f} MB of work memory{afar}, "
            f"more than the limit of {(limit + streamed) / 1e6:.0f} MB"
        )
    if kind == "cuda":
        return RunLimits(wanted, limit, largest, limit, _held(plan, folds, work, wanted, limit), streamed)
    reserved = max(least - largest, min(_held(plan, folds, work, wanted, limit), limit // 2))
    threads = max(1, min(wanted, (limit - reserved) // largest))
    room = limit - threads * largest
    return RunLimits(threads, limit, largest, room, _held(plan, folds, work, threads, room), streamed)


def _held(plan: Plan, folds: Sequence[ModelFold], work: WorkMemory, threads: int, room: int) -> int:
    """Bytes that folds hold at most within `room`: those over the model one after the other, then as many workflows as
    are under way; both where tensors have folds before one over the model.
    """
    rooms = FoldRooms.of(folds, threads, room)
    of_model = max((work.of_model_fold(one, rooms.model, WINDOW * threads) for one in folds), default=0)
    each = [work.of_folds(item, rooms.tensor) for item in plan.items]
    of_tensors = min(rooms.tensors, _most_of_neighbours(each, WINDOW * threads))
    return of_model + of_tensors if rooms.tensors < room else max(of_model, of_tensors)


def _most_of_neighbours(each: Sequence[int], many: int) -> int:
    """The largest sum of so many in a row."""
    upto = [0, *accumulate(each)]
    return max(end - upto[max(0, number - many)] for number, end in enumerate(upto))


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

    def memory(self, item: Item) -> int:
        """Bytes that an item takes on a GPU's host beside what each thread has anyway, which is all that the vector
        machine's backend takes.
        """
        return 0 if self.of(item) is self._vector else memory_here(item, Blocking.for_device("cuda"), "cuda")

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


def needs_torch(plan: Plan, device: str) -> bool:
    """Whether some item will be run in torch."""
    work = WorkMemory(device.split(":")[0])
    return any(map(work.in_torch, plan.items))


def preload_torch(plan: Plan, device: str) -> None:
    """Load torch now, if it will be needed. For a GPU it is being loaded since the merge began (gpu/start.py)."""
    if device == "cpu" and needs_torch(plan, device):
        import smelt.engine.run.eager  # noqa: F401
