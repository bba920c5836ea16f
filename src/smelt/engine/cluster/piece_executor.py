"""A worker's executor: that of an ordinary merge, for some pieces of its plan, and for parts of its folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

from smelt.caller import is_recipe, join_caller
from smelt.engine.cluster.parcels import restore_fold
from smelt.engine.plan.plan import Item, Plan, Span
from smelt.engine.run.backend import Backend
from smelt.engine.run.executor import OrderedJoin, PlanExecutor, TaskBatch, Workflow
from smelt.engine.run.streamed_inputs import announced, read_ahead
from smelt.engine.run.work_memory import ModelFold
from smelt.engine.sink.sink import Sink
from smelt.files.hashing.input_hashes import InputHashes
from smelt.system.process import gc_frozen
from smelt.system.progress import Progress

__all__ = ["FoldPart", "PieceExecutor"]

FoldPart = tuple[bool, Any]
"""What a piece contributes to a fold, and whether it begins a tensor."""


class PieceExecutor(PlanExecutor):
    """Runs pieces of a plan, `[item, first span, span after the last]` each, as often as it is asked."""

    def __init__(self, plan: Plan, sink: Sink, *, threads: int, room: int, hashes: InputHashes, streamed: int):
        words: dict[str, Any] = {"threads": threads, "room": room, "hashes": hashes, "streamed": streamed}
        super().__init__(plan, sink, Progress(quiet=True), **words)
        self._items = [part for item in plan.items for part in item.matrix_items]
        self._own: dict[tuple[str, int], tuple[int, int]] = {}

    def restore(self, states: Sequence[Any]) -> None:
        """The folds over the model, as far as they have come."""
        for one, state in zip(self._folds, states, strict=False):
            restore_fold(one.fold, state)
        self._model_folds = {(one.pipeline, one.position): one.fold for one in self._folds}

    def merge(self, pieces: Sequence[Sequence[int]]) -> None:
        items = [self._items[number] for number, _, _ in pieces]
        self._own = {
            (item.key, item.first): (first, stop) for item, (_, first, stop) in zip(items, pieces, strict=True)
        }
        with gc_frozen(), self._reading(items), self._pool() as threads:
            self._merge_all(threads, items)

    def fold(self, number: int, pieces: Sequence[Sequence[int]]) -> list[FoldPart]:
        """What pieces of the items of a fold contribute to it, in their order, joined where no bit depends on it."""
        one = self._folds[number]
        numbered = {(item.key, item.first): member for member, (item, _) in enumerate(one.members)}
        members = [one.members[member] for member, _, _ in pieces]
        self._own = {
            (item.key, item.first): (first, stop) for (item, _), (_, first, stop) in zip(members, pieces, strict=True)
        }
        # Those before it alone are worked out; this one is what is being gathered.
        self._model_folds = {(before.pipeline, before.position): before.fold for before in self._folds[:number]}
        parts = OrderedJoin(lambda left, right: left + right)

        def work(items: list[Item]) -> Workflow:
            (item,) = items
            return self._fold_piece(one, item, one.members[numbered[item.key, item.first]][1])

        together = [[item] for item, _ in members]

        def finished(number: int, part: Any) -> None:
            parts.add(number, part)
            if self._ahead is not None:
                self._ahead.done(members[number][0].name)

        with gc_frozen(), self._reading([item for item, _ in members]), self._pool() as threads:
            self._drive(threads, together, work, finished, one.fold.holds(one.count, one.models, 0))
        found: list[FoldPart] = parts.total
        return [(True, reduce(one.fold.join, [part for _, part in found]))] if one.fold.joins_exactly else found

    def close(self) -> None:
        self._backends.close()

    def _fold_piece(self, one: ModelFold, item: Item, index: int) -> Workflow:
        backend, fold = self._backends.of(item), one.fold
        folds = yield from self._tensor_folds(item, backend, index)
        first, _ = self._own[item.key, item.first]
        spans = self._own_spans(item, backend)
        tasks = [partial(backend.fold_span, item, index, fold, folds, span, False) for span in spans]
        if first == 0 or fold.joins_exactly:
            part = yield TaskBatch(tasks, fold.join)
            return [(first == 0, part)]
        listed = [partial(_listed, task) for task in tasks]
        return (yield TaskBatch(listed, lambda left, right: left + right))

    def _own_spans(self, item: Item, backend: Backend) -> list[Span]:
        first, stop = self._own[item.key, item.first]
        return backend.spans(item)[first:stop]

    @contextmanager
    def _reading(self, items: Sequence[Item]) -> Iterator[None]:
        """What the pieces of these items want of inputs on servers is fetched ahead."""
        self._ahead = read_ahead(self._plan, self._streamed) if self._streamed else None
        if self._ahead is not None:
            self._ahead.begin(announced(items, self._own_elements))
        try:
            yield
        finally:
            self._abandon()

    def _own_elements(self, item: Item) -> tuple[int, int]:
        spans = self._own_spans(item, self._backends.of(item))
        return (spans[0].start, spans[-1].stop) if spans else (0, 0)

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, "smelt", join_caller, (is_recipe(),))


def _listed(task: Any) -> list[FoldPart]:
    return [(False, task())]
