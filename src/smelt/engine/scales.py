"""Merges that differ in their scale alone: merged once, stretched for each scale.

    merged(s) = base + s * change         change: as the method gives it at scale 1, in float32

The equation holds where the method and all that follows it declare that they stretch (`Stage.stretches`, which a law
checks). Steps come before the scale and do not know it. A pass over the change multiplies, adds and rounds in the order
in which the method does, so the result is to the bit that of a whole merge. Where a wrapper or a basis follows the
multiplication, it is so up to the rounding of the change.

Changes are kept in memory within a bound, the latest always; one that is too large for the machine lies in a file
without a name. What is only copied is kept too. Scale curves, tuning and suites all merge here.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.merge import Options, merge_to_memory, plan_to_memory, planned
from smelt.engine.plan.plan import Item, Plan, RunStage, Tap
from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.source import MemorySource, Source, TensorInfo
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smelt.engine.pool import ModelPool

__all__ = ["Change", "Scaled", "at_scale", "change_plan", "is_exact", "is_linear", "scaled_methods", "stretched_plan"]


def scaled_methods() -> list[str]:
    """Every method that has a scale."""
    return sorted(name for name, stage in stages.items() if stage.kind == "method" and "scale" in stage.parameters)


def at_scale(recipe: Recipe, scale: float) -> Recipe:
    """The recipe with its method's `scale` set; everything else stays."""
    calls = list(recipe.merge)
    for number, call in enumerate(calls):
        names = [name for name, _ in ALIASES.get(call.name, [(call.name, {})])]
        method = next((stages[n] for n in names if n in stages and stages[n].kind == "method"), None)
        if method is None:
            continue
        if "scale" not in method.parameters:
            raise RecipeError(f"{method.name} has no scale to vary; there is one in: {', '.join(scaled_methods())}")
        calls[number] = call.model_copy(update={"parameters": {**call.parameters, "scale": scale}})
        return recipe.model_copy(update={"merge": calls})
    bind(recipe.merge, list(recipe.pool.models))  # says what is wrong with a pipeline that has no method
    raise RecipeError("the recipe has no method whose scale could vary")


def is_linear(recipe: Recipe) -> bool:
    """Whether one merge of this recipe gives all its scales."""
    bound, _ = bind(recipe.merge, list(recipe.pool.models))
    plain = not (recipe.parts or recipe.slices or recipe.lora) and recipe.vocab == "refuse"
    after = [one.stage for one in bound if one.stage.kind != "step"]
    return plain and recipe.pool.base is not None and all(stage.stretches for stage in after)


def is_exact(recipe: Recipe) -> bool:
    """Whether it gives them to the bit: the method's is then the last word, without a wrapper or a way back."""
    bound, _ = bind(recipe.merge, list(recipe.pool.models))
    return is_linear(recipe) and all(one.stage.kind in ("step", "method") for one in bound)


_FLOAT32 = "F32"
_ALIGNED = 64


@dataclass(frozen=True)
class Change:
    """How far a merge goes from the base at scale 1, and what it copies."""

    source: Source
    copied: dict[str, Tensor]
    nbytes: int
    """Bytes of all of it, wherever it lies."""

    @classmethod
    def of(cls, plan: Plan, options: Options, *, memory: int) -> Change:
        """The change of a plan, whatever its scale; what is larger than `memory` bytes lies in a file."""
        wanted = change_plan(plan)
        fits = wanted.bytes_out <= memory
        state = plan_to_memory(wanted, options, new=None if fits else _File(wanted.items).empty)
        copies = _only(plan, lambda item: item.copied)
        copied = plan_to_memory(copies, options) if copies.items else {}
        return cls(MemorySource("the merged change", state), copied, wanted.bytes_out + copies.bytes_out)

    def at(self, plan: Plan, options: Options) -> dict[str, Tensor]:
        """The merged model of a plan that differs in its scale alone; what is copied is shared by all of them."""
        state = {**self.copied, **plan_to_memory(stretched_plan(plan, self.source), options)}
        state = _as_stored(plan, state)
        return state | {name: state[twin] for name, twin in plan.tied.items() if twin in state}


def change_plan(plan: Plan) -> Plan:
    """What makes the change: everything that is merged, at scale 1, in float32, without the base."""
    known: dict[int, tuple[RunStage, ...]] = {}

    def changed(item: Item) -> Item:
        run = known.setdefault(id(item.stages), tuple(map(_at_one, item.stages)))
        return replace(item, info=TensorInfo(_FLOAT32, item.info.shape), stages=run, output_space="delta")

    merged = _only(plan, lambda item: not item.copied)
    return replace(merged, items=tuple(changed(item) for item in merged.items))


def stretched_plan(plan: Plan, change: Source) -> Plan:
    """What makes the model of a plan from its change: task arithmetic of one model whose change is known."""
    known: dict[tuple[int, int, float], tuple[RunStage, ...]] = {}

    def stretched(item: Item) -> Item:
        method = next(run for run in item.stages if run.stage.kind == "method")
        scale = method.parameters["scale"]
        place = (method.pipeline, method.position, scale)
        if place not in known:
            words = {"scale": scale, "weights": [1.0], "normalize": False}
            known[place] = (RunStage(stages["task_arithmetic"], method.pipeline, method.position, words),)
        taps = (Tap("change", change, item.key),)
        return replace(item, taps=taps, stages=known[place], unit="element", statistics=(), input_space="delta")

    merged = _only(plan, lambda item: not item.copied)
    return replace(merged, items=tuple(stretched(item) for item in merged.items))


def _only(plan: Plan, which: Callable[[Item], bool]) -> Plan:
    return replace(plan, items=tuple(item for item in plan.items if which(item)), tied={}, stored_as=None)


def _as_stored(plan: Plan, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Merged tensors as the output stores them, in its order."""
    import torch

    if not plan.stacked:
        return {item.key: state[item.key] for item in plan.items}
    made = {}
    for one in plan.stacked:
        parts = [state[name] for name, _ in one.parts]
        made[one.key] = parts[0] if len(parts) == 1 else torch.cat(parts).view(one.info.shape)
    return made


def _at_one(run: RunStage) -> RunStage:
    return replace(run, parameters={**run.parameters, "scale": 1.0}) if run.stage.kind == "method" else run


class _File:
    """Room for tensors in a temporary file that has lost its name: it is gone when the last of them is.

    Its blocks are claimed at once, so that a full disk is an error here and not a signal later.
    """

    def __init__(self, items: Iterable[Item]):
        import torch

        size = sum(_aligned_size(item.info) for item in items)
        descriptor, path = tempfile.mkstemp(prefix="smelt-change-")
        try:
            if hasattr(os, "posix_fallocate"):  # not on a Mac
                os.posix_fallocate(descriptor, 0, size)
            os.truncate(descriptor, size)
            self._bytes: torch.Tensor = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
        finally:
            os.close(descriptor)
            os.unlink(path)
        self._used = 0

    def empty(self, info: TensorInfo) -> Tensor:
        start, self._used = self._used, self._used + _aligned_size(info)
        raw = self._bytes[start : start + info.nbytes]
        return raw.view(dtypes.torch_dtype(info.dtype)).view(info.shape)


def _aligned_size(info: TensorInfo) -> int:
    return -(-info.nbytes // _ALIGNED) * _ALIGNED


KEPT = 3 << 29
"""Bytes of merged changes that are kept."""
LARGEST = 8 << 30
"""Bytes of a change that is kept in memory, or a quarter of the machine's where that is less."""


class Scaled:
    """The merges of one pool."""

    def __init__(
        self,
        pool: ModelPool,
        relative_to: Path | None = None,
        options: Options | None = None,
    ):
        self._pool, self._relative_to, self._options = pool, relative_to, options or Options()
        self._changes: OrderedDict[str, Change] = OrderedDict()
        self.merged = 0
        """How often models were merged; a scale of a change that is there does not count."""

    def at(self, recipe: Recipe, *, once: bool = False) -> dict[str, Tensor]:
        """The merged model of a recipe; with `once` nothing is kept for other scales of it."""
        with planned(recipe, relative_to=self._relative_to, pool=self._pool) as ready:
            if once or not is_linear(recipe):
                self.merged += 1
                return merge_to_memory(ready, self._options)

            place = at_scale(recipe, 1.0).hash
            change = self._changes.pop(place, None)
            if change is None:
                self.merged += 1
                change = Change.of(ready.plan, self._options, memory=_memory_for_a_change())
            self._keep(place, change)
            return change.at(ready.plan, self._options)

    def _keep(self, place: str, change: Change) -> None:
        """The latest, and of those before it as many as memory holds."""
        self._changes[place] = change
        while len(self._changes) > 1 and sum(one.nbytes for one in self._changes.values()) > KEPT:
            self._changes.popitem(last=False)


def _memory_for_a_change() -> int:
    """Bytes that one change may have in memory."""
    if not hasattr(os, "sysconf"):
        return LARGEST
    return min(LARGEST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
