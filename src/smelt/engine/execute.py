"""Execution: stream every tensor of a plan through its pipeline into a sink, block by block, on several threads.

Arithmetic is float32 whatever the storage. Nothing of the model's size is ever held: a thread has one block of
every model, and a whole-matrix method one matrix of every model.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from smelt.engine import dtype as dtypes
from smelt.engine.blocks import Blocking, Span, stack_shape
from smelt.engine.limits import default_threads, work_memory
from smelt.engine.memory import keep_pages
from smelt.engine.pipeline import Pipeline
from smelt.engine.plan import Item, Plan, Tap
from smelt.engine.schedule import Batch, InOrder, Program, run_programs
from smelt.errors import NumericalError
from smelt.ops.block import Block, Place
from smelt.ops.fold import Fold

__all__ = ["Executor", "Sink", "Watcher", "default_threads", "work_memory"]


class Sink(Protocol):
    """Where merged numbers go."""

    def write(self, item: Item, start: int, values: Tensor) -> None:
        """Take the elements of a tensor from `start` on, in its output dtype. Called from any thread."""

    def done(self, item: Item) -> None:
        """All of the tensor is written. Called from one thread."""


class Watcher(Protocol):
    """Who wants to know how far a run has come."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


class Executor:
    """One run of one plan."""

    def __init__(self, plan: Plan, sink: Sink, watcher: Watcher, *, threads: int, memory: int, device: str = "cpu"):
        self._plan, self._sink, self._watcher = plan, sink, watcher
        self._threads, self._memory = threads, memory
        self._device = _with_index(torch.device(device))
        self._blocking = Blocking.for_device(self._device.type)
        self._pipeline = Pipeline(plan.recipe.seed, self._device)
        self._model_folds: dict[tuple[int, int], Fold] = {}
        self._local = threading.local()

    def run(self, skip: Collection[str] = ()) -> None:
        """Do everything but the tensors in `skip`, which an earlier run has finished."""
        keep_pages()
        before = torch.get_num_threads()
        if self._device.type == "cuda":
            torch.linalg.eigh(torch.eye(2, device=self._device))  # torch loads its solvers once, and not thread-safely
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="smelt", initializer=self._start_thread)
        try:
            self._fold_models(pool)
            todo = [item for item in self._plan.items if item.key not in skip]
            self._watcher.begin("merging", sum(item.bytes_in for item in todo))
            self._drive(pool, todo, self._merge_item, lambda number, _: self._sink.done(todo[number]))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(before)

    def _start_thread(self) -> None:
        """One core, or one stream of the GPU, per thread: blocks run side by side, none is split between threads."""
        torch.set_num_threads(1)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.set_stream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def _drive(
        self,
        pool: ThreadPoolExecutor,
        items: list[Item],
        program: Callable[[Item], Program],
        finished: Callable[[int, Any], None],
    ) -> None:
        run_programs(
            ((program(item), work_memory(item, self._blocking)) for item in items),
            pool,
            budget=self._memory,
            window=4 * self._threads,
            finished=finished,
        )

    def _fold_models(self, pool: ThreadPoolExecutor) -> None:
        """The folds that need the whole model, stage after stage, since each sees what the stages before it made."""
        groups: dict[tuple[int, int, str], list[tuple[Item, int]]] = {}
        for item in self._plan.items:
            for index, run in enumerate(item.stages):
                groups.setdefault((run.position, run.pipeline, run.stage.name), []).append((item, index))
        for (position, pipeline, _), members in sorted(groups.items(), key=lambda group: group[0]):
            item, index = members[0]
            fold = item.stages[index].stage.fold_for(item.stages[index].parameters)
            if fold is not None and fold.scope == "model":
                self._fold_model(pool, members, fold)
                self._model_folds[pipeline, position] = fold

    def _fold_model(self, pool: ThreadPoolExecutor, members: list[tuple[Item, int]], fold: Fold) -> None:
        items = [item for item, _ in members]
        index_of = {item.key: index for item, index in members}
        name = items[0].stages[members[0][1]].stage.name
        while fold.wants_pass:
            self._watcher.begin(f"measuring for {name}", sum(item.bytes_in for item in items))
            joined = InOrder(fold.join)
            self._drive(pool, items, lambda item: self._measure_item(item, index_of[item.key], fold), joined.add)
            fold.absorb(joined.total)

    def _measure_item(self, item: Item, index: int, fold: Fold) -> Program:
        folds = yield from self._tensor_folds(item, index)
        tasks = [partial(self._look, item, index, fold, folds, span, True) for span in self._blocking.spans(item)]
        return (yield Batch(tasks, fold.join))

    def _merge_item(self, item: Item) -> Program:
        spans = self._blocking.spans(item)
        if item.copied:
            yield Batch([partial(self._copy, item, span) for span in spans])
            return
        folds = yield from self._tensor_folds(item, len(item.stages))
        yield Batch([partial(self._merge, item, folds, span) for span in spans])

    def _tensor_folds(self, item: Item, upto: int) -> Program:
        """The folds of the stages before `upto`: those of the model as they stand, those of this tensor worked out."""
        folds: dict[int, Fold] = {}
        for index, run in enumerate(item.stages[:upto]):
            known = self._model_folds.get((run.pipeline, run.position))
            fold = known or run.stage.fold_for(run.parameters)
            if fold is None:
                continue
            while fold.wants_pass:
                spans = self._blocking.spans(item)
                tasks = [partial(self._look, item, index, fold, dict(folds), span) for span in spans]
                fold.absorb((yield Batch(tasks, fold.join)))
            folds[run.position] = fold
        return folds

    def _look(
        self, item: Item, index: int, fold: Fold, folds: dict[int, Fold], span: Span, watched: bool = False
    ) -> Any:
        total: Any = None
        for start, stop in span.blocks():
            block = self._load(item, start, stop)
            part = fold.look(self._pipeline.before(item, index, block, folds))
            total = part if total is None else fold.join(total, part)
            if watched:
                self._watcher.advance(item.bytes_in * (stop - start) // item.info.count)
        return total

    def _merge(self, item: Item, folds: dict[int, Fold], span: Span) -> None:
        for start, stop in span.blocks():
            block = self._load(item, start, stop)
            merged = self._pipeline.merge(item, block, folds).reshape(-1)
            out = self._buffer("out", stop - start, dtypes.torch_dtype(item.info.dtype))
            out.copy_(merged)
            if not math.isfinite(float(out.sum(dtype=torch.float32))):
                self._refuse_result(item, block, out)
            self._sink.write(item, start, out)
            self._watcher.advance(item.bytes_in * (stop - start) // item.info.count)

    def _copy(self, item: Item, span: Span) -> None:
        assert item.base is not None
        for start, stop in span.blocks():
            out = self._buffer("copy", stop - start, dtypes.torch_dtype(item.info.dtype))
            item.base.source.read(item.base.key, start, out)
            if item.info.dtype != item.base.source.tensors[item.base.key].dtype:
                self._check_copy(item, start, out)
            self._sink.write(item, start, out)
            self._watcher.advance(item.bytes_in * (stop - start) // item.info.count)

    def _check_copy(self, item: Item, start: int, out: Tensor) -> None:
        """A copy in a smaller format must not turn a large number into infinity."""
        assert item.base is not None
        if math.isfinite(float(out.sum(dtype=torch.float32))):
            return
        before = torch.empty(out.numel())
        item.base.source.read(item.base.key, start, before)
        bad = (torch.isfinite(before) & ~torch.isfinite(out)).nonzero()
        if len(bad):
            raise NumericalError(
                f"{item.key!r} holds {float(before[int(bad[0])])} at element {start + int(bad[0]):,}, "
                f"which {item.info.dtype} cannot hold; choose another dtype"
            )

    def _load(self, item: Item, start: int, stop: int) -> Block:
        count, rows = stop - start, len(item.all_taps)
        if self._device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # the last block's copy must have left the buffer
        buffer = self._buffer("in", rows * count, torch.float32).view(rows, count)
        for row, tap in zip(buffer, item.all_taps, strict=True):
            tap.source.read(tap.key, start, row)
        if not math.isfinite(float(buffer.sum())):
            self._refuse_input(item, buffer, start)
        values = buffer.to(self._device, non_blocking=True)
        names = tuple(tap.model for tap in item.taps)
        place = Place(item.key, item.order, item.info.shape, start, stop, item.depth, names)
        shape = stack_shape(item, place)
        base = values[-1].view(shape) if item.base is not None else None
        statistics = self._load_statistics(item, place, shape) if item.statistics else None
        return Block(values[: len(item.taps)].view(-1, *shape), base, place, statistics=statistics)

    def _load_statistics(self, item: Item, place: Place, shape: tuple[int, ...]) -> Tensor:
        """The block's part of statistics that have the tensor's shape, all of others (which go with whole matrices)."""
        info = item.statistics[0].source.tensors[item.statistics[0].key]
        aligned = info.shape == item.info.shape
        start, count = (place.start, place.stop - place.start) if aligned else (0, info.count)
        buffer = self._buffer("in statistics", len(item.statistics) * count, torch.float32).view(-1, count)
        for row, tap in zip(buffer, item.statistics, strict=True):
            tap.source.read(tap.key, start, row)
            if not math.isfinite(float(row.sum())):
                _refuse_statistic(tap, row, start)
        return buffer.to(self._device, non_blocking=True).view(-1, *(shape if aligned else info.shape))

    def _buffer(self, name: str, count: int, dtype: torch.dtype) -> Tensor:
        """A thread's own buffer, re-used from block to block: a fresh page costs more than the arithmetic on it."""
        name = f"{name} {dtype}"
        buffer: Tensor | None = getattr(self._local, name, None)
        if buffer is None or buffer.numel() < count:
            pinned = self._device.type == "cuda" and name.startswith("in")
            buffer = torch.empty(count, dtype=dtype, pin_memory=pinned)
            setattr(self._local, name, buffer)
        return buffer[:count]

    def _refuse_input(self, item: Item, buffer: Tensor, start: int) -> None:
        for row, tap in zip(buffer, item.all_taps, strict=True):
            bad = (~torch.isfinite(row)).nonzero()
            if len(bad):
                index, value = start + int(bad[0]), float(row[int(bad[0])])
                raise NumericalError(
                    f"{tap.model} ({tap.source.label}) holds {value} in {tap.key!r} at element {index:,}; "
                    f"leave the tensor out with `skip: {item.key}`, or mend the model"
                )

    def _refuse_result(self, item: Item, block: Block, merged: Tensor) -> None:
        bad = (~torch.isfinite(merged)).nonzero()
        if len(bad):
            index = block.place.start + int(bad[0])
            raise NumericalError(
                f"the merge gave {float(merged[int(bad[0])])} in {item.key!r} at element {index:,} although all inputs "
                f"are finite; check the weights and scales of the recipe, and whether {item.info.dtype} can hold it"
            )


def _refuse_statistic(tap: Tap, row: Tensor, start: int) -> None:
    bad = (~torch.isfinite(row)).nonzero()
    if len(bad):
        index, value = start + int(bad[0]), float(row[int(bad[0])])
        raise NumericalError(
            f"the statistics of {tap.model} ({tap.source.label}) hold {value} for {tap.key!r} at element {index:,}; "
            "measure them again"
        )


def _with_index(device: torch.device) -> torch.device:
    """`cuda` means the GPU that is current in the thread that asked."""
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device
