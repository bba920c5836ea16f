"""Layer slices: an output whose blocks are runs of layers of several models, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.engine.plan.plan import Draft, OutputSection
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.recipe.pipeline import Spot
from smelt.recipe.schema import Slice, StageCall

__all__ = ["SlicedSection"]


class SlicedSection:
    """The output tensors of one section made of layer slices."""

    def __init__(
        self,
        section: OutputSection,
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
            self.items.append(Draft.plain(key, list(models), layout, pipeline))
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

    def _check_whole(self, section: OutputSection) -> None:
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
