"""Execution: stream every tensor of a plan through its pipeline into a sink, span by span, on several threads.

How a span is worked on is the business of a backend (backends.py). Arithmetic is float32 whatever the storage. Nothing
of the model's size is ever held. Neighbouring small tensors are worked off together, so that what a task costs is
shared by many.

What is done for a tensor is a workflow, a generator: it yields a batch of independent tasks and receives their joined
result, then yields the next batch, until it ends. Batches of different workflows run side by side. Results are joined
in the order of the tasks as they come in, so that they never depend on which thread ran what and are never all held at
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial, reduce
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from smelt.caller import is_recipe, join_caller
from smelt.engine.plan.plan import Item, Plan, Span, in_its_place
from smelt.engine.run.backend import Backend
from smelt.engine.run.backends import WINDOW, Backends
from smelt.engine.run.device import gpus_for
from smelt.engine.run.streamed_inputs import announced, read_ahead
from smelt.engine.run.work_memory import FoldRooms, ModelFold, WorkMemory, model_folds
from smelt.engine.sink.sink import Sink
from smelt.errors import NumericalError
from smelt.files.hashing.input_hashes import InputHashes, hashing_reads
from smelt.files.positioned import FilePlace
from smelt.files.remote.read_ahead import ReadAhead
from smelt.ops.fold import Fold
from smelt.system.process import gc_frozen, keep_freed_memory

__all__ = [
    "OrderedJoin",
    "PlanExecutor",
    "ProgressListener",
    "TaskBatch",
    "Workflow",
    "bundles",
    "run_here",
    "run_workflows",
]

Task: TypeAlias = Callable[[], Any]


def _forget(left: Any, right: Any) -> None:
    """Join the results of tasks that have none."""


@dataclass(frozen=True)
class TaskBatch:
    """Tasks that may run in any order, and how their results become one."""

    tasks: Sequence[Task]
    join: Callable[[Any, Any], Any] = _forget


Workflow: TypeAlias = Generator[TaskBatch, Any, Any]


class OrderedJoin:
    """Joins numbered parts in their order, holding only those that came too early."""

    def __init__(self, join: Callable[[Any, Any], Any]):
        self._join, self._next = join, 0
        self._early: dict[int, Any] = {}
        self.total: Any = None

    def add(self, number: int, part: Any) -> None:
        self._early[number] = part
        while self._next in self._early:
            part = self._early.pop(self._next)
            self.total = self._join(self.total, part) if self._next else part
            self._next += 1


@dataclass(eq=False)
class _Running:
    workflow: Workflow
    cost: int
    number: int
    results: OrderedJoin = field(default_factory=lambda: OrderedJoin(_forget))
    left: int = 0


def run_workflows(
    workflows: Iterable[tuple[Workflow, int]],
    threads: ThreadPoolExecutor,
    *,
    budget: int,
    window: int,
    finished: Callable[[int, Any], None] = lambda number, result: None,
    abandon: Callable[[], None] = lambda: None,
) -> None:
    """Run every (workflow, memory cost) to its end, at most `window` at once and within `budget` bytes.

    `finished(number, result)` is called in this thread, in the order in which workflows end. `abandon()` is called when
    one fails or the run is interrupted, before the tasks that run are waited for.
    """
    waiting = enumerate(workflows)
    upcoming = next(waiting, None)
    futures: dict[Future[Any], tuple[_Running, int]] = {}
    ended: SimpleQueue[Future[Any]] = SimpleQueue()
    spent = active = 0
    try:
        while upcoming is not None or futures:
            while upcoming is not None and active < window and (active == 0 or spent + upcoming[1][1] <= budget):
                number, (workflow, cost) = upcoming
                running = _Running(workflow, cost, number)
                spent, active = spent + cost, active + 1
                if not _advance(running, None, threads, futures, ended, finished):
                    spent, active = spent - cost, active - 1
                upcoming = next(waiting, None)
            if not futures:
                continue
            future = ended.get()
            running, number = futures.pop(future)
            running.results.add(number, future.result())
            running.left -= 1
            if running.left == 0 and not _advance(running, running.results.total, threads, futures, ended, finished):
                spent, active = spent - running.cost, active - 1
    except BaseException:
        abandon()
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def run_here(workflow: Workflow) -> Any:
    """Run a workflow to its end in this thread, its tasks one after the other; what it returns."""
    result = None
    try:
        while True:
            batch = workflow.send(result)
            result = None
            for number, task in enumerate(batch.tasks):
                part = task()
                result = batch.join(result, part) if number else part
    except StopIteration as end:
        return end.value


def _advance(
    running: _Running,
    result: Any,
    threads: ThreadPoolExecutor,
    futures: dict[Future[Any], tuple[_Running, int]],
    ended: SimpleQueue[Future[Any]],
    finished: Callable[[int, Any], None],
) -> bool:
    """Hand a workflow its result and submit its next batch; False at its end. A batch of nothing is done at once."""
    try:
        batch = running.workflow.send(result)
        while not batch.tasks:
            batch = running.workflow.send(None)
    except StopIteration as end:
        finished(running.number, end.value)
        return False
    running.results = OrderedJoin(batch.join)
    running.left = len(batch.tasks)
    for number, task in enumerate(batch.tasks):
        future = threads.submit(task)
        futures[future] = (running, number)
        future.add_done_callback(ended.put)
    return True


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


class ProgressListener(Protocol):
    """Who wants to know how far a run has come."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


class PlanExecutor:
    """One run of one plan."""

    def __init__(
        self,
        plan: Plan,
        sink: Sink,
        progress: ProgressListener,
        *,
        threads: int,
        room: int,
        device: str = "cpu",
        hashes: InputHashes | None = None,
        what: str = "merging",
        streamed: int = 0,
    ):
        """`room`: bytes that folds may hold, beside what each thread takes (`RunLimits.room`); `streamed`: those that
        are held of inputs on servers. With `hashes`, what is merged is hashed where it is read. `what` is how progress
        calls it.
        """
        self._streamed = streamed
        self._ahead: ReadAhead | None = None
        self._what = what
        self._plan, self._sink, self._progress, self._hashes = plan, sink, progress, hashes
        self._threads, self._on_cpu = threads, device == "cpu"
        self._folds = list(model_folds(plan))
        self._rooms = FoldRooms.of(self._folds, threads, room)
        self._work_memory = WorkMemory(device.split(":")[0])
        work, spread = (plan.bytes_in, gpus_for(device, plan)) if device != "cpu" else (0, ())
        self._backends = Backends(
            plan.recipe.seed,
            device,
            self._write,
            progress.advance,
            work,
            spread,
            place_of=self._place_of,
            hashes=hashes,
        )
        self._model_folds: dict[tuple[int, int], Fold] = {}

    def run(self, skip: Collection[str] = ()) -> None:
        """Do everything but the tensors in `skip`, which an earlier run has finished."""
        keep_freed_memory()
        with gc_frozen():
            self._run(skip)

    def _run(self, skip: Collection[str]) -> None:
        threads = ThreadPoolExecutor(self._threads, "smelt", join_caller, (is_recipe(),))
        self._ahead = read_ahead(self._plan, self._streamed) if self._streamed else None
        try:
            self._fold_models(threads)
            items = [item for item in self._plan.items if item.key not in skip]
            todo = [part for item in self._sink.in_good_order(items) for part in item.matrix_items]
            self._progress.begin(self._what, sum(item.bytes_in for item in todo))
            if self._ahead is not None:
                self._ahead.begin(announced(todo))
            self._merge_all(threads, todo)
        finally:
            self._abandon()  # whoever waits for bytes is told
            threads.shutdown(wait=True, cancel_futures=True)
            self._backends.close()

    def _merge_all(self, threads: ThreadPoolExecutor, todo: list[Item]) -> None:
        together = bundles(todo, self._is_small)
        left = Counter(part.key for part in todo)
        self._drive(threads, together, self._merge_items, lambda number, _: self._done(together[number], left))

    def _own_spans(self, item: Item, backend: Backend) -> list[Span]:
        """Those that are merged here: all, but where several processes share a plan (engine/cluster)."""
        return backend.spans(item)

    def _abandon(self) -> None:
        """Wait for nothing from afar any more."""
        if self._ahead is not None:
            self._ahead.close()

    def _write(self, item: Item, start: int, values: memoryview) -> None:
        self._sink.write(*in_its_place(item, start, values))

    def _place_of(self, item: Item, start: int) -> FilePlace | None:
        whole = item.whole
        if whole is None:
            return self._sink.place_of(item, start)
        in_order = item.matrices is not None and not item.matrices.transposed
        return self._sink.place_of(whole, item.first + start) if in_order else None

    def _done(self, items: list[Item], left: Counter[str]) -> None:
        """Tell the sink of tensors whose last matrix is merged; `left` counts those that are not."""
        for item in items:
            if self._ahead is not None:
                self._ahead.done(item.name)
            left[item.key] -= 1
        finished = [item.whole or item for item in items if not left[item.key]]
        if finished:
            self._sink.done_all(finished)

    def _is_small(self, item: Item) -> bool:
        return item.whole is None and self._backends.of(item).is_small(item)

    def _drive(
        self,
        threads: ThreadPoolExecutor,
        together: list[list[Item]],
        workflow: Callable[[list[Item]], Workflow],
        finished: Callable[[int, Any], None],
        each: int = 0,
    ) -> None:
        """`each`: bytes that every workflow holds, beside what the folds of its tensors do."""
        run_workflows(
            ((workflow(items), each + sum(map(self._held, items))) for items in together),
            threads,
            budget=self._rooms.tensors,
            window=WINDOW * self._threads,
            finished=finished,
            abandon=self._abandon,
        )

    def _held(self, item: Item) -> int:
        """Bytes that a workflow takes beside its thread."""
        return self._work_memory.of_folds(item, self._rooms.tensor) if self._on_cpu else self._backends.memory(item)

    def _fold_models(self, threads: ThreadPoolExecutor) -> None:
        for one in self._folds:
            self._fold_model(threads, one)
            self._model_folds[one.pipeline, one.position] = one.fold

    def _fold_model(self, threads: ThreadPoolExecutor, one: ModelFold) -> None:
        fold, items = one.fold, one.items
        index_of = {item.key: index for item, index in one.members}
        name = items[0].stages[one.members[0][1]].stage.name
        if all(self._backends.of(item).can_sample(item) for item in items):
            fold.sampled(one.count, one.models, self._rooms.model)
        together = bundles(items, self._is_small)
        while fold.wants_pass:
            self._progress.begin(f"measuring for {name}", sum(item.bytes_in for item in items))
            joined = OrderedJoin(lambda left, right: [reduce(fold.join, [*left, *right])])
            work = partial(self._fold_items, index_of=index_of, fold=fold)
            if self._ahead is not None:
                self._ahead.begin(announced(items))

            def add(number: int, parts: Any, joined: OrderedJoin = joined) -> None:
                joined.add(number, parts)
                if self._ahead is not None:
                    for item in together[number]:
                        self._ahead.done(item.name)

            self._drive(threads, together, work, add, fold.holds(one.count, one.models, 0))
            fold.absorb(reduce(fold.join, joined.total))

    def _fold_items(self, items: list[Item], index_of: Mapping[str, int], fold: Fold) -> Workflow:
        """What small items or a single one contribute, as parts in their order."""
        if len(items) == 1:
            backend = self._backends.of(items[0])
            return [(yield from self._fold_item(items[0], backend, index_of[items[0].key], fold))]
        return (yield TaskBatch([partial(self._fold_together, items, index_of, fold)]))

    def _fold_together(self, items: list[Item], index_of: Mapping[str, int], fold: Fold) -> list[Any]:
        parts: list[Any] = []
        backend = self._backends.of(items[0])
        for item in items:
            part = run_here(self._fold_item(item, backend, index_of[item.key], fold))
            if parts and fold.joins_exactly:  # else the order of the sums would be another
                parts = [fold.join(parts[0], part)]
            else:
                parts.append(part)
        return parts

    def _fold_item(self, item: Item, backend: Backend, index: int, fold: Fold) -> Workflow:
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
        with hashing_reads(self._hashes):
            merged = backend.merge_small(items, folds)
        self._sink.write_all(items, merged)
        self._progress.advance(sum(item.bytes_in for item in items))

    def _merge_item(self, item: Item) -> Workflow:
        backend = self._backends.of(item)
        spans = self._own_spans(item, backend)
        if item.copied:
            yield TaskBatch([partial(self._hashed, backend.copy_span, item, span) for span in spans])
            return
        folds = yield from self._tensor_folds(item, backend, len(item.stages))
        yield TaskBatch([partial(self._hashed, backend.merge_span, item, folds, span) for span in spans])

    def _hashed(self, work: Callable[..., None], *words: Any) -> None:
        with hashing_reads(self._hashes):
            work(*words)

    def _tensor_folds(self, item: Item, backend: Backend, upto: int) -> Workflow:
        """The folds of the stages before `upto`: those of the model as they stand, those of this tensor worked out."""
        folds: dict[int, Fold] = {}
        for index, run in enumerate(item.stages[:upto]):
            known = self._model_folds.get((run.pipeline, run.position))
            fold = known or run.stage.fold_for(run.parameters)
            if fold is None:
                continue
            if known is None and backend.can_sample(item):
                fold.sampled(item.info.count, len(item.taps), self._rooms.tensor)
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
