"""Drafts: for every tensor of the output, where each model's numbers for it come from.

Usually every model has the tensor under the output's own name. Layer slices change that: block 12 of the output
may be block 4 of one model and block 20 of another. Parts give some tensors a pipeline or models of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.engine.pool import BASE, ModelPool
from smelt.errors import RecipeError
from smelt.files.natural_order import natural
from smelt.formats.architecture.layout import Layout
from smelt.recipe.schema import Recipe, Slice, StageCall
from smelt.recipe.values import Spot, matches

__all__ = ["Draft", "Drafts", "draft"]


@dataclass(frozen=True, slots=True)
class Draft:
    """One output tensor: the name of its tensor in each model, and which pipeline merges it."""

    key: str
    taps: Mapping[str, str]
    base_key: str
    pipeline: int
    spot: Spot
    """Where parameters are evaluated: inside a slice, depth runs over the slice."""
    depth: float


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
class _Section:
    keys: tuple[str, ...]
    models: tuple[str, ...]
    merge: Sequence[StageCall]
    slices: Sequence[Slice] | None


def draft(recipe: Recipe, pool: ModelPool) -> Drafts:
    """Work out every output tensor of a recipe from the names in the pool."""
    layout = Layout.of(pool.reference.tensors)
    pipelines: list[tuple[Sequence[StageCall], tuple[str, ...]]] = []
    items: list[Draft] = []
    dropped: set[tuple[str, str]] = set()
    layers: dict[str, list[int]] = {}
    for section in _sections(recipe, pool):
        if section.slices is None:
            pipelines.append((section.merge, section.models))
            items += [_plain(key, section.models, layout, len(pipelines) - 1) for key in section.keys]
        else:
            sliced = _Sliced(section, pool, layout, pipelines)
            items += sliced.items
            dropped |= sliced.dropped
            layers[sliced.stack] = sliced.reference_layers
    items.sort(key=lambda item: natural(item.key))
    return Drafts(items, pipelines, frozenset(dropped), layers)


def _sections(recipe: Recipe, pool: ModelPool) -> Iterable[_Section]:
    left = sorted(pool.reference.tensors, key=natural)
    for part in recipe.parts:
        keys = tuple(key for key in left if any(matches(pattern, key) for pattern in part.keys))
        if not keys:
            raise RecipeError(f"the part {part.keys} matches no tensor that is left")
        taken = set(keys)
        left = [key for key in left if key not in taken]
        models = tuple(part.models or pool.models)
        strangers = [name for name in models if name not in pool.models]
        if strangers:
            raise RecipeError(f"the part {part.keys} names {strangers[0]!r}, which is not in the pool")
        yield _Section(keys, models, part.merge or recipe.merge, part.slices)
    if left:
        yield _Section(tuple(left), tuple(pool.models), recipe.merge, recipe.slices)


def _plain(key: str, models: Sequence[str], layout: Layout, pipeline: int) -> Draft:
    depth = layout.depth(key)
    spot = Spot(key, depth, layout.block(key) is not None)
    return Draft(key, dict.fromkeys(models, key), key, pipeline, spot, depth)


class _Sliced:
    """The output tensors of one section made of layer slices."""

    def __init__(
        self,
        section: _Section,
        pool: ModelPool,
        layout: Layout,
        pipelines: list[tuple[Sequence[StageCall], tuple[str, ...]]],
    ):
        self._pool = pool
        stack = Layout.of(section.keys).main_stack
        if stack is None:
            raise RecipeError(
                "layer slices need a model with numbered blocks (model.layers.0...), and this one has none"
            )
        self.stack = stack
        self._check_whole(section)
        slices = section.slices or []
        self._check(slices)
        self.items: list[Draft] = []
        self.reference_layers: list[int] = []
        total = sum(_length(s) for s in slices)
        for slice_ in slices:
            pipelines.append((slice_.merge or section.merge, tuple(slice_.models)))
            self._blocks(slice_, len(pipelines) - 1, total)
        first, last = (len(pipelines) - len(slices), len(pipelines) - 1) if slices else (0, 0)
        for key in section.keys:
            block = layout.block(key)
            if block is not None and block[0] == stack:
                continue
            pipeline, models = (first, slices[0].models) if layout.before_blocks(key) else (last, slices[-1].models)
            self.items.append(_plain(key, list(models), layout, pipeline))
        self.dropped = self._unused(slices)

    def _unused(self, slices: Sequence[Slice]) -> frozenset[tuple[str, str]]:
        """The tensors in blocks that no slice takes from their model: left out on purpose, as others are not."""
        used: dict[str, set[int]] = {name: set() for name in self._pool.all}
        for slice_ in slices:
            for name, (start, stop) in slice_.models.items():
                used[name].update(range(start, stop))
            if BASE in used:
                used[BASE].update(range(*(slice_.base or next(iter(slice_.models.values())))))
        return frozenset(
            (name, key)
            for name, source in self._pool.all.items()
            for key in source.tensors
            if (block := Layout.block(key)) and block[0] == self.stack and block[1] not in used[name]
        )

    def _check_whole(self, section: _Section) -> None:
        held = set(section.keys)
        for key in self._pool.reference.tensors:
            block = Layout.block(key)
            if block is not None and block[0] == self.stack and key not in held:
                raise RecipeError(f"a part with slices must hold all of {self.stack}.*, and {key!r} is not in it")

    def _check(self, slices: Sequence[Slice]) -> None:
        for number, slice_ in enumerate(slices):
            lengths = {stop - start for start, stop in slice_.models.values()}
            if len(lengths) > 1 or min(lengths) < 1:
                raise RecipeError(f"slice {number}: all models must give the same number of layers (at least one)")
            if slice_.base and slice_.base[1] - slice_.base[0] not in lengths:
                raise RecipeError(f"slice {number}: the base must give as many layers as the models")
            for name, (start, stop) in slice_.models.items():
                if name not in self._pool.models:
                    raise RecipeError(f"slice {number} names {name!r}, which is not in the pool")
                count = Layout.of(self._pool.models[name].tensors).stacks.get(self.stack, 0)
                if start < 0 or stop > count:
                    raise RecipeError(f"slice {number}: {name!r} has layers 0 to {count}, not [{start}, {stop}]")

    def _blocks(self, slice_: Slice, pipeline: int, total: int) -> None:
        length = _length(slice_)
        offset = len(self.reference_layers)
        base_start = (slice_.base or next(iter(slice_.models.values())))[0]
        first_model, (first_start, _) = next(iter(slice_.models.items()))
        names = Layout.of(self._pool.models[first_model].tensors)
        rests: dict[int, list[str]] = {}
        for name in names.names:
            block = names.block(name)
            if block is not None and block[0] == self.stack:
                rests.setdefault(block[1], []).append(block[2])
        for i in range(length):
            self.reference_layers.append(base_start + i if self._pool.base else first_start + i)
            inner = i / (length - 1) if length > 1 else 1.0
            depth = (offset + i) / (total - 1) if total > 1 else 1.0
            for rest in rests.get(first_start + i, []):
                key = self._name(offset + i, rest)
                taps = {model: self._name(start + i, rest) for model, (start, _) in slice_.models.items()}
                base_key = self._name(base_start + i, rest)
                self.items.append(Draft(key, taps, base_key, pipeline, Spot(key, inner, True, taps), depth))

    def _name(self, index: int, rest: str) -> str:
        return f"{self.stack}.{index}.{rest}" if self.stack else f"{index}.{rest}"


def _length(slice_: Slice) -> int:
    start, stop = next(iter(slice_.models.values()))
    return stop - start
