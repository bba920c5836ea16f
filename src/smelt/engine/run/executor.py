"""Execution: stream every tensor of a plan through its pipeline into a sink, span by span, on several threads.

How a span is worked on is the business of a backend (backends.py). Neighbouring small tensors are worked off together,
so that what a task costs is shared by many. Arithmetic is float32 whatever the storage. Nothing of the model's size is
ever held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import Any

from smelt.engine.plan.plan import Item, Plan, in_its_place
from smelt.engine.run.backends import Backend, Backends, Blocking, ProgressListener, Sink
from smelt.engine.run.schedule import OrderedJoin, TaskBatch, Workflow, run_here, run_workflows
from smelt.errors import NumericalError
from smelt.ops.fold import Fold
from smelt.system.allocator import keep_pages
from smelt.system.garbage import left_alone

__all__ = ["PlanExecutor", "bundles"]

_MANY = 512
"""Small tensors from which on it is worth it: fewer take a tenth of a second."""
_ELEMENTS, _TENSORS = 1 << 18, 256
"""At most in a bundle: few enough that several threads have work, and that little is done again after a kill."""


def bundles(items: Sequence[Item], small: Callable[[Item], bool]) -> list[list[Item]]:
    """The items in their order: small neighbours in one list, any other in a list of its own."""
    found = [small(item) for item in items]
    if sum(found) < _MANY:
        return [[item] for item in items]
    out: list[list[Item]] = []
    elements = 0
    for number, item in enumerate(items):
        elements += item.info.count
        fits = elements <= _ELEMENTS and out and len(out[-1]) < _TENSORS
        if fits and number and found[number] and found[number - 1]:
            out[-1].append(item)
        else:
            out.append([item])
            elements = item.info.count
    return out


class PlanExecutor:
    """One run of one plan."""

    def __init__(
        self, plan: Plan, sink: Sink, progress: ProgressListener, *, threads: int, memory: int, device: str = "cpu"
    ):
        self._plan, self._sink, self._progress = plan, sink, progress
        self._threads, self._memory = threads, memory
        self._blocking = Blocking.for_device(device.split(":")[0])
        work = plan.bytes_in if device != "cpu" else 0
        self._backends = Backends(plan.recipe.seed, device, self._write, progress.advance, work)
        self._model_folds: dict[tuple[int, int], Fold] = {}

    def run(self, skip: Collection[str] = ()) -> None:
        """Do everything but the tensors in `skip`, which an earlier run has finished."""
        keep_pages()
        with left_alone():
            self._run(skip)

    def _run(self, skip: Collection[str]) -> None:
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="smelt")
        try:
            self._fold_models(pool)
            todo = [part for item in self._plan.items if item.key not in skip for part in item.parts]
            self._progress.begin("merging", sum(item.bytes_in for item in todo))
            together = bundles(todo, self._is_small)
            left = Counter(part.key for part in todo)
            self._drive(pool, together, self._merge_items, lambda number, _: self._done(together[number], left))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._backends.close()

    def _write(self, item: Item, start: int, values: memoryview) -> None:
        self._sink.write(*in_its_place(item, start, values))

    def _done(self, items: list[Item], left: Counter[str]) -> None:
        """Tell the sink of tensors whose last matrix is merged; `left` counts those that are not."""
        for item in items:
            left[item.key] -= 1
        finished = [item.whole or item for item in items if not left[item.key]]
        if finished:
            self._sink.done_all(finished)

    def _is_small(self, item: Item) -> bool:
        return item.whole is None and self._backends.of(item).is_small(item)

    def _drive(
        self,
        pool: ThreadPoolExecutor,
        together: list[list[Item]],
        workflow: Callable[[list[Item]], Workflow],
        finished: Callable[[int, Any], None],
    ) -> None:
        run_workflows(
            (
                (workflow(items), sum(self._backends.memory(item, self._blocking) for item in items))
                for items in together
            ),
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
                members = groups.setdefault((run.position, run.pipeline, run.stage.name), [])
                members += [(part, index) for part in item.parts]
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
        if all(self._backends.of(item).can_sample(item) for item in items):
            fold.sampled(sum(item.info.count for item in items), max(len(item.taps) for item in items))
        together = bundles(items, self._is_small)
        while fold.wants_pass:
            self._progress.begin(f"measuring for {name}", sum(item.bytes_in for item in items))
            joined = OrderedJoin(lambda left, right: [reduce(fold.join, [*left, *right])])
            self._drive(pool, together, lambda some: self._measure_items(some, index_of, fold), joined.add)
            fold.absorb(reduce(fold.join, joined.total))

    def _measure_items(self, items: list[Item], index_of: Mapping[str, int], fold: Fold) -> Workflow:
        """What small items or a single one contribute, as parts in their order."""
        if len(items) == 1:
            backend = self._backends.of(items[0])
            return [(yield from self._measure_item(items[0], backend, index_of[items[0].key], fold))]
        return (yield TaskBatch([partial(self._measure_together, items, index_of, fold)]))

    def _measure_together(self, items: list[Item], index_of: Mapping[str, int], fold: Fold) -> list[Any]:
        parts: list[Any] = []
        backend = self._backends.of(items[0])
        for item in items:
            part = run_here(self._measure_item(item, backend, index_of[item.key], fold))
            if parts and fold.joins_exactly:  # else the order of the sums would be another
                parts = [fold.join(parts[0], part)]
            else:
                parts.append(part)
        return parts

    def _measure_item(self, item: Item, backend: Backend, index: int, fold: Fold) -> Workflow:
        folds = yield from self._tensor_folds(item, backend, index)
        tasks = [partial(backend.fold_span, item, index, fold, folds, span, True) for span in backend.spans(item)]
        return (yield TaskBatch(tasks, fold.join))

    def _merge_items(self, items: list[Item]) -> Workflow:
        if len(items) == 1:
            return (yield from self._merge_item(items[0]))
        yield TaskBatch([partial(self._merge_together, items)])

    def _merge_together(self, items: list[Item]) -> None:
        backend = self._backends.of(items[0])
        folds = [run_here(self._tensor_folds(item, backend, len(item.stages))) for item in items]
        self._sink.write_all(items, backend.merge_small(items, folds))
        self._progress.advance(sum(item.bytes_in for item in items))

    def _merge_item(self, item: Item) -> Workflow:
        backend = self._backends.of(item)
        if item.copied:
            yield TaskBatch([partial(backend.copy_span, item, span) for span in backend.spans(item)])
            return
        folds = yield from self._tensor_folds(item, backend, len(item.stages))
        yield TaskBatch([partial(backend.merge_span, item, folds, span) for span in backend.spans(item)])

    def _tensor_folds(self, item: Item, backend: Backend, upto: int) -> Workflow:
        """The folds of the stages before `upto`: those of the model as they stand, those of this tensor worked out."""
        folds: dict[int, Fold] = {}
        for index, run in enumerate(item.stages[:upto]):
            known = self._model_folds.get((run.pipeline, run.position))
            fold = known or run.stage.fold_for(run.parameters)
            if fold is None:
                continue
            if known is None and backend.can_sample(item):
                fold.sampled(item.info.count, len(item.taps))
            while fold.wants_pass:
                tasks = [
                    partial(backend.fold_span, item, index, fold, dict(folds), span, False)
                    for span in backend.spans(item)
                ]
                total = yield TaskBatch(tasks, fold.join)
                try:
                    fold.absorb(total)
                except NumericalError as error:  # a fold does not know where it is
                    raise NumericalError(f"{item.name!r}: {error}") from None
            folds[run.position] = fold
        return folds
