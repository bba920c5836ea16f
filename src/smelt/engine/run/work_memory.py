"""What work takes of the memory that a run may use: a thread for its piece of an item, folds for what they hold.

A thread has one piece at a time, in buffers that it keeps. Folds hold numbers from piece to piece: samples, what lies
in brackets, histograms, masks. Those of a tensor hold them while its workflow runs, those of the model while all
tensors stream past. The interpreter, the plan, what a model in memory takes and the page cache are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.engine.plan.plan import SUMMARIES, Blocking, Item, Plan, RunStage

if TYPE_CHECKING:
    from smelt.ops.fold import Fold

__all__ = ["FoldRooms", "ModelFold", "WorkMemory", "eager_thread_memory", "is_whole", "memory_here", "model_folds"]


@dataclass(frozen=True)
class ModelFold:
    """A fold over the model, and the items that stream past it, each with the index of its stage."""

    pipeline: int
    position: int
    fold: Fold
    members: Sequence[tuple[Item, int]]

    @property
    def items(self) -> list[Item]:
        return [item for item, _ in self.members]

    @property
    def count(self) -> int:
        """Elements of all."""
        return sum(item.info.count for item, _ in self.members)

    @property
    def models(self) -> int:
        return max(len(item.taps) for item, _ in self.members)


def model_folds(plan: Plan) -> Iterator[ModelFold]:
    """The folds that need the whole model, stage after stage, since each sees what the stages before it made."""
    groups: dict[tuple[int, int, str], list[tuple[Item, int]]] = {}
    for item in plan.items:
        for index, run in enumerate(item.stages):
            members = groups.setdefault((run.position, run.pipeline, run.stage.name), [])
            members += [(part, index) for part in item.matrix_items]
    for (position, pipeline, _), members in sorted(groups.items(), key=lambda group: group[0]):
        item, index = members[0]
        fold = item.stages[index].stage.fold_for(item.stages[index].parameters)
        if fold is not None and fold.scope == "model":
            yield ModelFold(pipeline, position, fold, members)


@dataclass(frozen=True)
class FoldRooms:
    """How folds share what they may hold, in bytes."""

    model: int
    """Of a fold over the model."""
    tensors: int
    """Of the folds of all tensors that are under way."""
    tensor: int
    """Of those of one tensor, so that all threads have work."""

    @classmethod
    def of(cls, folds: Sequence[ModelFold], threads: int, room: int) -> FoldRooms:
        """Half for each where tensors may have folds of their own while they stream past one over the model."""
        together = any(index for one in folds for _, index in one.members)
        tensors = room // 2 if together else room
        return cls(tensors, tensors, tensors // threads)


def eager_thread_memory(item: Item, blocking: Blocking) -> int:
    """Bytes that a thread of torch takes for an item: inputs, float32 stack, and a few temporaries of the stack's size.

    A matrix is decomposed in float64, whose temporaries are larger; statistics of whole matrices are kept in it.
    Of a stack of matrices each is worked on by itself.
    """
    item = item if item.whole is not None else item.matrix_items[0]
    rows = len(item.taps) + 2
    if is_whole(item):
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


def is_whole(item: Item) -> bool:
    """Whether its stages are given all of it at once."""
    return item.unit in ("tensor", "matrix")


def memory_here(item: Item, blocking: Blocking, kind: str) -> int:
    """The same of this machine's memory: of a matrix that a GPU works on, only what goes there and what comes back."""
    if kind == "cpu" or not is_whole(item):
        return eager_thread_memory(item, blocking)
    each = 8 if item.statistics_kind in SUMMARIES else 4
    statistics = sum(tap.source.tensors[tap.key].count for tap in item.statistics)
    taps = sum(tap.source.tensors[tap.key].nbytes for tap in item.all_taps)
    return (taps + each * statistics + item.info.nbytes) // len(item.matrix_items)


class WorkMemory:
    """Of the items of a plan, by the backend that works on each: the same that a run would choose."""

    def __init__(self, device: str):
        from smelt.engine.run.cpu.machine import library
        from smelt.engine.run.cpu.rule_table import Support

        self._device, self._blocking = device, Blocking.for_device(device)
        self._supports = Support() if device == "cpu" and library() is not None else None
        self._folds: dict[tuple[int, ...], tuple[tuple[RunStage, ...], list[Fold]]] = {}

    def in_torch(self, item: Item) -> bool:
        """Whether it is worked on in torch."""
        return self._supports is None or not self._supports(item.matrix_items[0])

    def of_thread(self, item: Item) -> int:
        """Bytes that a thread takes for it."""
        if self.in_torch(item):
            return memory_here(item, self._blocking, self._device)
        from smelt.engine.run.cpu.thread_memory import vector_thread_memory

        return vector_thread_memory(item.matrix_items[0])

    def of_folds(self, item: Item, room: int, upto: int | None = None) -> int:
        """Bytes that the folds of its stages hold while it is worked on, those of the model left out."""
        folds = self._tensor_folds(item.stages if upto is None else item.stages[:upto])
        if not folds:
            return 0
        item = item.matrix_items[0]
        room = room if self.samples(item) else 0
        return sum(fold.holds(item.info.count, len(item.taps), room) for fold in folds)

    def of_model_fold(self, one: ModelFold, room: int, workflows: int = 1) -> int:
        """Bytes that it holds while the model streams past in so many workflows at once.

        What is held of a sample is held once. A histogram is as large for a tensor as for the model, and every workflow
        has one until it ends; fewer are begun where there is no room for more.
        """
        least = one.fold.holds(one.count, one.models, 0)
        held = one.fold.holds(one.count, one.models, room) if all(map(self.samples, one.items)) else least
        return held if held != least else min(max(room, 2 * least), (1 + workflows) * least)

    def samples(self, item: Item) -> bool:
        """Whether a fold can be shown a sample of it."""
        return item.unit == "element" and not self.in_torch(item)

    def _tensor_folds(self, stages: tuple[RunStage, ...]) -> list[Fold]:
        """Made once for stages that many tensors share, which are kept, so that no others get their number."""
        key = tuple(map(id, stages))
        if key not in self._folds:
            made = [run.stage.fold_for(run.parameters) for run in stages]
            self._folds[key] = stages, [fold for fold in made if fold is not None and fold.scope == "tensor"]
        return self._folds[key][1]
