"""Merges inside a study: models are read once, and a merge whose scale alone is new costs one pass.

In: recipes that differ in the parameters of their stages. Out: state dicts. What is kept is bounded: models that do
not fit stay on disk, each in the format that it was saved in.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.merge import Options, merge_to_memory, planned
from smelt.engine.pool import ModelPool
from smelt.engine.scales import Scaled
from smelt.errors import RecipeError
from smelt.files.identity import check_unchanged
from smelt.formats.source import MemorySource, Source, files_of, read_whole
from smelt.methods import stages
from smelt.prepare.prepare import needs_data, prepare
from smelt.recipe.schema import DataBudget, Recipe

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RepeatedMerges"]

_MODELS = 8 << 30
"""Bytes of models that are kept in memory."""


class RepeatedMerges:
    """The models of a pool, open and in memory if they fit, and their merges."""

    def __init__(self, recipe: Recipe, relative_to: Path | None = None, *, device: str = "cpu"):
        """`device` is where data is looked at; merging runs on the CPU."""
        import torch

        self._relative_to, self._device = relative_to, device
        self.pool = ModelPool.open(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle)
        needed = sum(info.nbytes for source in self.pool.all.values() for info in source.tensors.values())
        if needed <= _MODELS:
            self.pool = _in_memory(self.pool)
        self._scaled = Scaled(self.pool, relative_to, Options(threads=torch.get_num_threads()))
        self._statistics: dict[str, str] | None = None
        self.budget = DataBudget()
        """Of what the latest merge looked at, before it was evaluated."""

    def at(self, recipe: Recipe, *, once: bool = False) -> dict[str, Tensor]:
        """The merged model of a recipe over the same pool, as a state dict in the output's dtypes.

        `once` says that no other scale of it will be asked for.
        """
        return self._after_looking(recipe, once) if needs_data(recipe) else self._scaled.at(recipe, once=once)

    def _after_looking(self, recipe: Recipe, once: bool) -> dict[str, Tensor]:
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
        return self._scaled.at(recipe.model_copy(update={"statistics": known, "data": None}), once=once)


def _in_memory(pool: ModelPool) -> ModelPool:
    """The same pool, every tensor read once; files are closed."""
    held = {name: _held(source) for name, source in pool.all.items()}
    check_unchanged(files_of(pool.all.values()))
    pool.close()
    return replace(pool, base=held["base"] if pool.base else None, models={name: held[name] for name in pool.models})


def _held(source: Source) -> MemorySource:
    state = {name: read_whole(source, name) for name in source.tensors}
    state |= {name: state[twin] for name, twin in source.tied.items()}
    held = MemorySource(source.label, state)
    held.files, held.folder, held.notes = source.files, source.folder, source.notes
    held.arranged_as(source)
    return held
