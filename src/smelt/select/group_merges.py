"""Groups: the merges of growing groups of models, in memory.

A group is merged and named in the order of the pool, in whatever order it grew: sums of floats depend on their order,
and the answers of a group are kept under its name. The plain average is a running sum in float32:

    S_t = S_{t-1} + x_t        M_t = S_t / t
Where a group is the one before with models behind it, only these are read. It is never a chain of halves, in which the
last model would weigh as much as all before it. Any other method is merged from its models anew by the engine. Either
way a group gives what the engine gives for the same recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.merge import Options, merge_to_memory, planned
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import NumericalError, RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.source import MemorySource, Source
from smelt.prepare.prepare import needs_data
from smelt.prepare.repeated_merges import RepeatedMerges
from smelt.recipe.schema import Recipe
from smelt.select.subset_recipe import check_narrowable, in_pool_order, narrowed

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.plan.plan import Item

__all__ = ["GroupMerges", "identity_of"]

_SUM = 32 << 30
"""Bytes of a running sum that are kept in memory; larger models are merged anew at each step."""


def identity_of(
    recipe: Recipe, prints: Mapping[str, str], names: Sequence[str], statistics: Mapping[str, str] | None = None
) -> str:
    """What `Groups.identity` gives, without any model open."""
    if len(names) == 1:
        return f"model {prints[names[0]]}"
    some = narrowed(recipe, in_pool_order(recipe, names))
    content = {"base": prints.get(BASE), "models": {name: prints[name] for name in some.pool.models}}
    measured = {name: (statistics or {}).get(name, ref) for name, ref in some.statistics.items()}
    changes = {"pool": some.pool.model_copy(update=content), "statistics": measured}
    return f"merge {some.model_copy(update=changes).hash}"


class GroupMerges:
    """The models of a recipe, open, and merges of some of them."""

    def __init__(
        self,
        recipe: Recipe,
        relative_to: Path | None,
        prints: Mapping[str, str],
        statistics: Mapping[str, str] | None = None,
    ):
        """`prints` are hashes of the models' files by name, `statistics` those of what was measured on them."""
        if needs_data(recipe):
            names = ", ".join(call.name for call in recipe.merge)
            raise RecipeError(
                f"{names}: looks at data for every merge, and here many groups are merged; give `statistics` that were "
                "measured before, or choose the group by another method and merge it by this one afterwards"
            )
        check_narrowable(recipe)
        self.recipe, self._relative_to = recipe, relative_to
        self._prints, self._statistics = prints, statistics
        self.pool = RepeatedMerges(recipe, relative_to).pool
        self._sum: _RunningSum | None = None
        self._check()

    def identity(self, names: Sequence[str]) -> str:
        """A hash of what a group's merge follows from: its recipe and its models' numbers."""
        return identity_of(self.recipe, self._prints, names, self._statistics)

    def at(self, names: Sequence[str]) -> Source:
        """The merge of a group; that of one model is the model."""
        if len(names) == 1:
            return self.pool.models[names[0]]
        names = in_pool_order(self.recipe, names)
        state = self._average(names) if self._averages() else self._merged(names)
        source = MemorySource(f"merge of {', '.join(names)}", state)
        source.folder = self._pool(names).reference.folder
        return source

    def close(self) -> None:
        self.pool.close()
        self._sum = None

    def _check(self) -> None:
        """Plan a group of every size, so that what cannot be merged is refused before the first pass."""
        names = list(self.pool.models)
        for size in range(2, len(names) + 1):
            some = narrowed(self.recipe, names[:size])
            with planned(some, relative_to=self._relative_to, pool=self._pool(names[:size])):
                pass

    def _pool(self, names: Sequence[str]) -> ModelPool:
        return replace(self.pool, models={name: self.pool.models[name] for name in names})

    def _merged(self, names: Sequence[str]) -> dict[str, Tensor]:
        import torch

        some = narrowed(self.recipe, names)
        with planned(some, relative_to=self._relative_to, pool=self._pool(names)) as ready:
            return merge_to_memory(ready, Options(threads=torch.get_num_threads()))

    def _averages(self) -> bool:
        """Whether the merge is the plain mean of all models. Without a base, what is not merged is the first one's."""
        if self.pool.base is None:
            return False
        (first, *others), parameters = self.recipe.merge, self.recipe.merge[0].parameters
        plain = first.name == "average" and not others and not parameters.keys() - {"normalize"}
        needed = sum(4 * info.count for info in self.pool.reference.tensors.values())
        return plain and parameters.get("normalize", True) is True and not self.recipe.parts and needed <= _SUM

    def _average(self, names: Sequence[str]) -> dict[str, Tensor]:
        if self._sum is None:
            recipe = narrowed(self.recipe, list(self.pool.models))
            with planned(recipe, relative_to=self._relative_to, pool=self.pool) as ready:
                self._sum = _RunningSum(ready.plan.items, ready.plan.tied)
        return self._sum.mean(names)


class _RunningSum:
    """The sum of some models, tensor by tensor, and what all of them share."""

    def __init__(self, items: Sequence[Item], tied: Mapping[str, str]):
        self._items, self._tied = items, tied
        self._names: list[str] = []
        self._total: dict[str, Tensor] = {}

    def mean(self, names: Sequence[str]) -> dict[str, Tensor]:
        """The state dict of the models' mean; those that the sum holds already are not read again."""
        if list(names[: len(self._names)]) != self._names:
            self._names, self._total = [], {}
        for name in names[len(self._names) :]:
            self._add(name)
        state = {item.key: self._mean(item) for item in self._items}
        return state | {name: state[twin] for name, twin in self._tied.items() if twin in state}

    def _add(self, name: str) -> None:
        for item in self._items:
            if item.copied:
                continue
            tap = next(tap for tap in item.taps if tap.model == name)
            values = _read(tap.source, tap.key, item)
            if item.key in self._total:
                self._total[item.key].add_(values)
            else:
                self._total[item.key] = values
        self._names.append(name)

    def _mean(self, item: Item) -> Tensor:
        if item.copied:
            return _read(item.copied_from.source, item.copied_from.key, item, exact=True)
        mean = self._total[item.key] / len(self._names)
        if not mean.isfinite().all():
            raise NumericalError(f"{item.key}: the mean of {', '.join(self._names)} is NaN or infinite")
        return mean.to(dtypes.torch_dtype(item.info.dtype))


def _read(source: Source, key: str, item: Item, *, exact: bool = False) -> Tensor:
    """A tensor in float32, or as it is."""
    import torch

    flat = torch.empty(item.info.count, dtype=dtypes.torch_dtype(item.info.dtype) if exact else torch.float32)
    source.read(key, 0, flat)
    return flat.view(item.info.shape)
