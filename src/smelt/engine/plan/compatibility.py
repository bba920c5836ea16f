"""Whether the models of a pool fit each other, as data: what each shares with the reference and where it differs.

From headers and configs, and a small sample of the weights for whether the base is theirs. `faults` are the sentences
that a merge of the same pool would refuse with, `doubts` those it would note, made by the same code; the tables beside
them are for reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Facts, Lines
from smelt.display.shown import Shown
from smelt.files.reading import natural

if TYPE_CHECKING:
    from smelt.engine.pool import ModelPool
    from smelt.formats.source import Source

__all__ = ["Compatibility", "ModelFit", "TensorDifference", "compare"]

_SHOWN = 3
"""Tensors that are named of many."""


@dataclass(frozen=True)
class TensorDifference:
    """One tensor that is not as in the reference."""

    tensor: str
    reference: str
    model: str


@dataclass(frozen=True)
class ModelFit:
    """One model beside the reference."""

    model: str
    shared: int
    """Tensors that both have."""
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    shapes: tuple[TensorDifference, ...]
    dtypes: tuple[TensorDifference, ...]

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.shapes or self.dtypes)


@dataclass(frozen=True)
class Compatibility(Shown):
    """A pool's report. `ok` says that a merge of it would start."""

    reference: str
    tensors: int
    parameters: int
    models: tuple[ModelFit, ...]
    faults: tuple[str, ...]
    causes: tuple[str, ...] = ()
    """What the models differ in, where that explains the faults: `hidden_size 128 (base) and 192 (birds)`."""
    doubts: tuple[str, ...] = ()
    """Questions that a merge would ask, and run all the same: whether this is the base."""

    @property
    def ok(self) -> bool:
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def found(self) -> list[Facts | Lines]:
        """What is there, without what is wrong."""
        first = ("reference", f"{self.reference}: {self.tensors} tensors, {self.parameters:,} parameters")
        fits = [pair for fit in self.models for pair in _fit_in_words(fit, self.tensors)]
        said = ["these models can be merged"] if self.ok else []
        if self.doubts:
            doubts = (f"  {doubt}" for doubt in self.doubts)
            said = ["these models are of one shape and would be merged, but:", *doubts]
        return [Facts([first, *fits]), Lines(said)]

    def shown(self) -> list[Facts | Lines]:
        return [*self.found(), Lines([f"fault: {fault}" for fault in self.faults])]


def compare(pool: ModelPool, **words: Any) -> Compatibility:
    """Compare every model with the reference; `words` are those of a recipe (`skip`, `missing`, `config`, ...)."""
    from smelt.engine.plan.base_check import foreign_base_in_pool
    from smelt.engine.plan.build import draft
    from smelt.engine.plan.causes import causes
    from smelt.engine.plan.checks import leave_frozen, leave_unmerged, tensor_faults
    from smelt.engine.plan.ready import config_faults
    from smelt.engine.pool import BASE, ModelPool
    from smelt.formats.views.view import without_tied_copy
    from smelt.recipe.schema import Recipe

    sources = {name: without_tied_copy(source)[0] for name, source in pool.all.items()}
    untied = ModelPool(sources.get(BASE), {name: sources[name] for name in pool.models})
    refs = {name: source.label for name, source in untied.models.items()}
    recipe = Recipe.parse({"pool": {"models": refs}, "merge": "average", **words})
    recipe, frozen = leave_frozen(leave_unmerged(recipe, pool), pool)
    faults = frozen + tensor_faults(recipe, untied, draft(recipe, untied)) + config_faults(recipe, pool)
    reference = untied.reference
    return Compatibility(
        untied.reference_name,
        len(reference.tensors),
        sum(info.count for info in reference.tensors.values()),
        tuple(_fit(name, reference, s) for name, s in untied.all.items() if name != untied.reference_name),
        tuple(faults),
        tuple(causes(untied)) if faults else (),
        () if faults else tuple(foreign_base_in_pool(untied)),
    )


def _fit_in_words(fit: ModelFit, tensors: int) -> list[tuple[str, str]]:
    shapes = [f"{one.tensor} {one.model} instead of {one.reference}" for one in fit.shapes]
    kinds = [f"{one.tensor} {one.model} instead of {one.reference}" for one in fit.dtypes]
    parts = (("lacks", fit.missing), ("has beside", fit.extra), ("other shape:", shapes), ("other dtype:", kinds))
    differences = [("", f"{what} {_some(names)}") for what, names in parts if names]
    return [(fit.model, f"shares {fit.shared} of {tensors}"), *differences]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _fit(name: str, reference: Source, model: Source) -> ModelFit:
    ours, theirs = model.tensors, reference.tensors
    shared = sorted(ours.keys() & theirs.keys(), key=natural)
    return ModelFit(
        name,
        len(shared),
        tuple(sorted(theirs.keys() - ours.keys() - model.tied.keys(), key=natural)),
        tuple(sorted(ours.keys() - theirs.keys() - reference.tied.keys(), key=natural)),
        tuple(
            TensorDifference(key, str(theirs[key].shape), str(ours[key].shape))
            for key in shared
            if theirs[key].shape != ours[key].shape
        ),
        tuple(
            TensorDifference(key, theirs[key].dtype, ours[key].dtype)
            for key in shared
            if theirs[key].dtype != ours[key].dtype
        ),
    )
