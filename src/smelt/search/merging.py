"""Merges inside a study: models are read once, and a merge whose scale alone is new costs one addition.

In: recipes that differ in the parameters of their stages. Out: state dicts. What is kept is bounded: models that do
not fit stay on disk, each in the format that it was saved in, and of the merged changes (in float32, without what is
only copied) the latest are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.analyse.linear import at_scale, is_linear
from smelt.engine import dtype as dtypes
from smelt.engine.run import Options, merge_to_memory, planned
from smelt.engine.source import MemorySource, Source
from smelt.errors import RecipeError
from smelt.evaluate.row import DataBudget
from smelt.merge import stages
from smelt.pool.modelpool import ModelPool
from smelt.prepare import needs_data, prepare
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Merges"]

_MODELS = 8 << 30
_CHANGES = 3 << 29
"""Bytes of models and of merged changes that are kept; the latest change always is."""


class Merges:
    """The models of a pool, open and in memory if they fit, and their merges."""

    def __init__(self, recipe: Recipe, relative_to: Path | None = None, *, device: str = "cpu"):
        """`device` is where data is looked at; merging runs on the CPU."""
        self._relative_to, self._device = relative_to, device
        self.pool = ModelPool.open(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle)
        needed = sum(info.nbytes for source in self.pool.all.values() for info in source.tensors.values())
        if needed <= _MODELS:
            self.pool = _in_memory(self.pool)
        self._changes: OrderedDict[str, _Change] = OrderedDict()
        self._statistics: dict[str, str] | None = None
        self.budget = DataBudget()
        """Of what the latest merge looked at, before it was evaluated."""

    def at(self, recipe: Recipe) -> dict[str, Tensor]:
        """The merged model of a recipe over the same pool, as a state dict in the output's dtypes."""
        if needs_data(recipe):
            return self._after_looking(recipe)
        scale = _scale(recipe)
        if scale is None:
            return _state_dict(recipe, self.pool, self._relative_to)
        unit = at_scale(recipe, 1.0)
        change = self._changes.pop(unit.hash, None) or _Change.of(unit, self.pool, self._relative_to)
        self._changes[unit.hash] = change
        while len(self._changes) > 1 and sum(one.nbytes for one in self._changes.values()) > _CHANGES:
            self._changes.popitem(last=False)
        return change.at(scale)

    def _after_looking(self, recipe: Recipe) -> dict[str, Tensor]:
        """The same where data is looked at first; a statistic that no parameter changes is looked for once."""
        fixed = all(call.name in stages for call in recipe.merge)
        known = self._statistics if fixed else None
        if known is None:
            prepared = prepare(recipe, relative_to=self._relative_to, device=self._device)
            self.budget = prepared.budget
            if prepared.recipe is None:
                raise RecipeError(f"{recipe.merge[0].name} makes a larger model, and a study merges; tune it by hand")
            if not (fixed and prepared.recipe.statistics and prepared.recipe.merge == recipe.merge):
                with planned(prepared.recipe) as ready:
                    return merge_to_memory(ready, Options())
            known = self._statistics = prepared.recipe.statistics
        return _state_dict(recipe.model_copy(update={"statistics": known, "data": None}), self.pool, self._relative_to)


@dataclass(frozen=True)
class _Change:
    """How far a merge goes from the base at scale 1, in float32; what it copies stays as it is."""

    base: Source
    change: dict[str, Tensor]
    copied: dict[str, Tensor]
    dtypes: dict[str, str]
    """Of the changed tensors in the output."""
    tied: dict[str, str]

    @classmethod
    def of(cls, unit: Recipe, pool: ModelPool, relative_to: Path | None) -> _Change:
        import torch

        exact = unit.model_copy(update={"dtype": "float32"})
        known, wanted = pool.reference.tensors, dtypes.parse_dtype(unit.dtype) if unit.dtype else None
        with planned(exact, relative_to=relative_to, pool=pool) as ready:
            state = merge_to_memory(ready, Options(threads=torch.get_num_threads()))
            base, tied = ready.pool.base, {name: twin for name, twin in ready.plan.tied.items() if twin in state}
            changed = {item.key for item in ready.plan.items if not item.copied}
        assert base is not None
        codes = {name: wanted or known[name].dtype for name in state if name in known}
        copied: dict[str, Tensor] = {}
        for name in [name for name in state if name not in tied]:
            if name in changed:
                state[name].sub_(_read(base, name, state[name].shape))
                continue
            tensor = state[name]
            floats = tensor.is_floating_point() and name in codes
            copied[name] = tensor.to(dtypes.torch_dtype(codes[name])) if floats else tensor
            del state[name]  # in float32 it is not needed any more
        return cls(base, {name: state[name] for name in changed}, copied, codes, tied)

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for part in (self.change, self.copied) for tensor in part.values())

    def at(self, scale: float) -> dict[str, Tensor]:
        """The model at a scale: base + scale * change, rounded once."""
        state = dict(self.copied)
        for name, change in self.change.items():
            moved = _read(self.base, name, change.shape).add_(change, alpha=scale)
            state[name] = moved.to(dtypes.torch_dtype(self.dtypes[name])) if name in self.dtypes else moved
        return state | {name: state[twin] for name, twin in self.tied.items()}


def _read(source: Source, name: str, shape: torch.Size) -> Tensor:
    """A tensor in float32."""
    import torch

    flat = torch.empty(shape.numel())
    source.read(name, 0, flat)
    return flat.view(shape)


def _state_dict(recipe: Recipe, pool: ModelPool, relative_to: Path | None) -> dict[str, Tensor]:
    """One whole merge in memory."""
    import torch

    with planned(recipe, relative_to=relative_to, pool=pool) as ready:
        return merge_to_memory(ready, Options(threads=torch.get_num_threads()))


def _scale(recipe: Recipe) -> float | None:
    """The one scale that stretches the whole merge, if there is one."""
    bound, _ = bind(recipe.merge, list(recipe.pool.models))
    method = next(one for one in bound if one.stage.kind == "method")
    scale = method.values.get("scale")
    plain = isinstance(scale, int | float) and not isinstance(scale, bool)
    return scale if plain and is_linear(recipe) else None


def _in_memory(pool: ModelPool) -> ModelPool:
    """The same pool, every tensor read once; files are closed."""
    held = {name: _held(source) for name, source in pool.all.items()}
    pool.close()
    return replace(pool, base=held["base"] if pool.base else None, models={name: held[name] for name in pool.models})


def _held(source: Source) -> MemorySource:
    import torch

    state: dict[str, Tensor] = {}
    for name, info in source.tensors.items():
        flat = torch.empty(info.count, dtype=dtypes.torch_dtype(info.dtype))
        source.read(name, 0, flat)
        state[name] = flat.view(info.shape)
    state |= {name: state[twin] for name, twin in source.tied.items()}
    held = MemorySource(source.label, state)
    held.files, held.folder, held.notes = source.files, source.folder, source.notes
    return held
