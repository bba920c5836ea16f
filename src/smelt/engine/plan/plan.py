"""A plan: every tensor of the output, how it is made and what it costs, known before anything is merged.

A tensor that is stored as [in, out], or holds a stack of experts, is run as items that read [out, in], one matrix each,
through views of the models (`Item.matrix_items`). So a method, its folds and its memory know nothing of how a file is
written, and an expert in a stack is merged as it would be alone. Stages that take any run of elements see the tensor as
it is stored: to them it is the same, and quicker.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smelt.files.identity import FileIdentity
from smelt.files.remote.mounts import mount_name
from smelt.formats.architecture.expert_stacks import StackForm, StoredTensor
from smelt.formats.architecture.layout import Layout, Matrices
from smelt.formats.dtype import item_size
from smelt.formats.source import Component, Source, TensorInfo, files_of
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.methods import Stage
from smelt.methods.method import Space, Unit
from smelt.ops.block import Place
from smelt.recipe.pipeline import Spot
from smelt.recipe.schema import Recipe, Slice, StageCall
from smelt.version import __version__

__all__ = [
    "SUMMARIES",
    "Blocking",
    "Draft",
    "Drafts",
    "Item",
    "OutputSection",
    "Plan",
    "RunStage",
    "Span",
    "Tap",
    "in_its_place",
]


SUMMARIES = {"gram": 2, "components": 1}
"""Statistics that are not as large as the matrix, and their axes; a stack of matrices has one more."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One model's tensor behind an output tensor, or what is known about it."""

    model: str
    source: Source
    key: str


@dataclass(frozen=True, slots=True)
class Draft:
    """One output tensor: the name of its tensor in each model, and which pipeline merges it.

    Usually every model has the tensor under the output's own name. Layer slices change that (slices.py): block 12 of
    the output may be block 4 of one model and block 20 of another. Parts give some tensors a pipeline or models of
    their own.
    """

    key: str
    taps: Mapping[str, str]
    base_key: str
    pipeline: int
    spot: Spot
    """Where parameters are evaluated: inside a slice, depth runs over the slice."""
    depth: float

    @classmethod
    def plain(cls, key: str, models: Sequence[str], layout: Layout, pipeline: int) -> Draft:
        """A tensor that all models have under the output's own name."""
        depth = layout.depth(key)
        spot = Spot(key, depth, layout.block(key) is not None)
        return cls(key, dict.fromkeys(models, key), key, pipeline, spot, depth)


@dataclass(frozen=True)
class Drafts:
    items: Sequence[Draft]
    pipelines: Sequence[tuple[Sequence[StageCall], tuple[str, ...]]]
    """Each pipeline's stages and the models it merges."""
    dropped: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """(model, tensor) that slices leave out on purpose."""
    layers: Mapping[str, list[int]] = field(default_factory=dict)
    """For each sliced stack, the block of the base (else of the slice's first model) behind every output block."""


@dataclass(frozen=True)
class OutputSection:
    """Tensors of the output that one word of the recipe speaks of: a part, or all that is left."""

    keys: tuple[str, ...]
    models: tuple[str, ...]
    merge: Sequence[StageCall]
    slices: Sequence[Slice] | None


@dataclass(frozen=True)
class RunStage:
    """A stage with its parameters for one tensor. Equal ones are one object, so that columns are built once."""

    stage: Stage
    pipeline: int
    position: int
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """One output tensor: merged by `stages` from `taps`, or copied from `base` where there are no stages."""

    key: str
    """Its name in the output."""
    order: int
    """Its number among the items of the plan: what folds gather is joined in this order."""
    info: TensorInfo
    """Its dtype and shape in the output."""
    depth: float
    """Where it is in the stack of layers, from 0 to 1."""
    base: Tap | None
    """The base's tensor, where stages need it; of a copied item the tensor that is copied (`copied_from`)."""
    taps: tuple[Tap, ...] = ()
    stages: tuple[RunStage, ...] = ()
    unit: Unit = "element"
    statistics: tuple[Tap, ...] = ()
    """What a stage reads beside each of the taps, in their order."""
    input_space: Space = "weight"
    """What the taps hold: weights, or changes from the base that an earlier merge made."""
    output_space: Space = "weight"
    """What is written: the merged weights, or only how far they are from the base."""
    matrices: Matrices | None = None
    """The linear layers in the tensor, where they are stored as anything but one [out, in]."""
    whole: Item | None = None
    """The output tensor that this is one matrix of."""
    first: int = 0
    """The number of its elements before this matrix."""

    @property
    def name(self) -> str:
        """How messages call it: the tensor, and which of its matrices where there are several."""
        several = self.whole is not None and self.info.count < self.whole.info.count
        return f"{self.key}[{self.first // self.info.count}]" if several else self.key

    @property
    def copied(self) -> bool:
        return not self.stages

    @property
    def copied_from(self) -> Tap:
        """The tensor that a copied item is a copy of: the base's, or a model's where the base has none."""
        assert self.copied
        assert self.base is not None
        return self.base

    @property
    def all_taps(self) -> tuple[Tap, ...]:
        """The models' tensors, and the base's last where it is read too."""
        return (*self.taps, self.base) if self.base is not None else self.taps

    @property
    def statistics_kind(self) -> str | None:
        """What kind of statistics its stages read."""
        return next((run.stage.statistics for run in self.stages if run.stage.statistics), None)

    @cached_property
    def matrix_items(self) -> tuple[Item, ...]:
        """What is run: itself, or its matrices one by one where its stages know rows or matrices."""
        return _each_matrix(self)

    @property
    def row_length(self) -> int:
        """Elements of a row: all that belong to one index of the first axis; a vector is a single row."""
        shape = self.info.shape
        return math.prod(shape[1:]) if len(shape) > 1 else max(1, math.prod(shape))

    def place(self, start: int, stop: int) -> Place:
        """Elements `start` to `stop`, as stages know them."""
        names = tuple(tap.model for tap in self.taps)
        turned = self.matrices.shape if self.whole is None and self.matrices and self.matrices.transposed else None
        return Place(
            self.key, self.order, self.info.shape, self.first + start, self.first + stop, self.depth, names, turned
        )

    def block_shape(self, place: Place) -> tuple[int, ...]:
        """The shape (without the models) in which stages see a block: [elements], [rows, columns] or the tensor's."""
        count = place.stop - place.start
        if self.unit == "element":
            return (count,)
        if self.unit in ("tensor", "matrix"):
            return self.info.shape
        return (count // self.row_length, self.row_length)

    @cached_property
    def bytes_in(self) -> int:
        """Bytes that one pass over its inputs reads."""
        return sum(tap.source.tensors[tap.key].nbytes for tap in (*self.all_taps, *self.statistics))

    def bytes_of(self, elements: int) -> int:
        """Those of so many of its elements."""
        return self.bytes_in * elements // self.info.count


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
    """How large blocks and spans are in torch: `stack` is the number of elements that all models of a block have."""

    stack: int
    blocks_per_span: int

    @classmethod
    def for_device(cls, kind: str) -> Blocking:
        """Large enough to outlast the work around each operation (launches on a GPU; on a CPU the hand-over of the
        interpreter lock between threads), small enough for the caches. Both measured: docs/explanation/log.md.
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
            step = max(1, step // item.row_length) * item.row_length
        width = step * self.blocks_per_span
        return [Span(start, min(start + width, count), step) for start in range(0, count, width)]


@dataclass(frozen=True)
class Plan:
    """Everything that is known before anything is merged."""

    recipe: Recipe
    items: tuple[Item, ...]
    notes: tuple[str, ...]
    tied: Mapping[str, str]
    """Names of tensors that are not stored, each with the name of the tensor whose numbers it shares."""
    layers: Mapping[str, list[int]]
    """For each sliced stack, the block of the reference behind every output block (`Drafts.layers`)."""
    stage_names: tuple[str, ...]
    parents: Mapping[str, Source] = field(default_factory=dict)
    """All models that are read, by their names; the base is among them."""
    statistics: Mapping[str, Source] = field(default_factory=dict)
    """What stages read beside the models, by the models' names."""
    stored_as: StackForm | None = None
    """How the output lays out its experts, where not one by one."""

    @cached_property
    def stacked(self) -> tuple[StoredTensor, ...]:
        """Where the output lays out its experts in a way of its own, the tensors of its files."""
        form = self.stored_as
        return form.joined({item.key: item.info for item in self.items}) if form else ()

    @property
    def stored_tensors(self) -> Sequence[Item | StoredTensor]:
        """The tensors of the output's files: the merged ones, or stacks of them."""
        return self.stacked or self.items

    @cached_property
    def places(self) -> dict[str, tuple[str, int]]:
        """For each merged tensor the stored one that it lies in, and its first element there."""
        if not self.stacked:
            return {item.key: (item.key, 0) for item in self.items}
        return {part: (one.key, first) for one in self.stacked for part, first in one.parts}

    @property
    def components(self) -> Mapping[str, Component]:
        """The sub-folders of the output, by what their tensors' names begin with: those of the base, else of the first
        model.
        """
        return next((source.components for source in self.parents.values()), {})

    @property
    def bytes_out(self) -> int:
        return sum(item.info.nbytes for item in self.items)

    @property
    def bytes_in(self) -> int:
        """Bytes that one pass over the inputs reads."""
        return sum(item.bytes_in for item in self.items)

    @property
    def inputs(self) -> dict[Path, FileIdentity]:
        """All files that it reads, as they were when they were opened."""
        return files_of([*self.parents.values(), *self.statistics.values()])

    @property
    def is_streamed(self) -> bool:
        """Whether some of them lie on servers."""
        return any(seen.version for seen in self.inputs.values())

    def fingerprint(self, device: str) -> str:
        """Changes whenever a resumed run could not continue an earlier one: code, device, recipe, tensors, inputs."""
        files = sorted((mount_name(path), *seen) for path, seen in self.inputs.items())
        tensors = [(item.key, item.info.dtype, item.info.shape) for item in self.items]
        return hashlib.sha256(json.dumps([__version__, device, self.recipe.hash, tensors, files]).encode()).hexdigest()


def _each_matrix(item: Item) -> tuple[Item, ...]:
    """The items that are run for an item: its matrices, or itself where its stages need not know them."""
    matrices = item.matrices
    if matrices is None or item.unit == "element" or item.copied:
        return (item,)
    taps = [_views(tap, item) for tap in item.taps]
    base = _views(item.base, item) if item.base is not None else [None] * matrices.count
    statistics = [_views(tap, item, item.statistics_kind) for tap in item.statistics]
    # Rows of a transposed matrix lie all over it: it is read whole.
    unit = "tensor" if matrices.transposed and item.unit == "row" else item.unit
    return tuple(
        replace(
            item,
            info=TensorInfo(item.info.dtype, matrices.shape),
            base=base[number],
            taps=tuple(views[number] for views in taps),
            statistics=tuple(views[number] for views in statistics),
            unit=unit,
            whole=item,
            first=number * item.info.count // matrices.count,
        )
        for number in range(matrices.count)
    )


def in_its_place(item: Item, start: int, values: memoryview) -> tuple[Item, int, memoryview]:
    """Merged numbers of an item as its sink takes them: the output tensor, where they begin in it, and they as stored.

    Of a transposed matrix all numbers come at once, since it is one block.
    """
    if item.whole is None:
        return item, start, values
    assert item.matrices is not None
    if item.matrices.transposed:
        import numpy as np

        wide = np.frombuffer(values, f"u{item_size(item.info.dtype)}").reshape(item.info.shape)
        values = np.ascontiguousarray(wide.T).reshape(-1).view(np.uint8).data
    return item.whole, item.first + start, values


def _views(tap: Tap, item: Item, kind: str | None = None) -> Sequence[Tap]:
    """A tap on each of the matrices, or on the statistic of this kind that belongs to each."""
    matrices, stored = item.matrices, tap.source.tensors[tap.key]
    assert matrices is not None
    axes = SUMMARIES.get(kind or "")
    info = TensorInfo(stored.dtype, stored.shape[-axes:] if axes else matrices.shape)
    names = [tap.key] if matrices.count == 1 else [f"{tap.key}[{number}]" for number in range(matrices.count)]
    pieces = {
        name: Piece(tap.key, number * info.count, info, matrices.transposed and not axes)
        for number, name in enumerate(names)
    }
    view = RenamedSource(tap.source, pieces)
    return [Tap(tap.model, view, name) for name in names]
