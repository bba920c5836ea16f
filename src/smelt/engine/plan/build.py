"""From a recipe and the headers of its models to a plan: a Draft for every output tensor, then its Item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smelt.caller import base_word, model_word, pipeline, word
from smelt.engine.plan.checks import left_out, tensor_faults
from smelt.engine.plan.plan import Draft, Drafts, Item, OutputSection, Plan, RunStage, Tap
from smelt.engine.plan.slices import SlicedSection
from smelt.engine.plan.statistics import StatisticsPairing
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import IncompatibleModels, RecipeError
from smelt.files.reading import natural
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout, Matrices, Orientation
from smelt.formats.source import TensorInfo
from smelt.methods import Stage, stages
from smelt.methods.method import Unit
from smelt.recipe.patterns import matches, skip_remedy
from smelt.recipe.pipeline import BoundStage, bind, constant, patterns_in, resolve
from smelt.recipe.schema import Recipe, StageCall

__all__ = ["draft", "make_plan"]

_COARSENESS: dict[Unit, int] = {"element": 0, "row": 1, "tensor": 2, "matrix": 3}


def make_plan(recipe: Recipe, pool: ModelPool, written: Recipe | None = None) -> Plan:
    """Plan a merge. Raises RecipeError or IncompatibleModels with all that is wrong: first with the recipe's stages,
    then with the models' tensors, then with single items.

    `written` is the recipe before the frozen part of the models was left out of it (`leave_frozen`); notes tell the two
    apart.
    """
    drafts = draft(recipe, pool)
    bound, notes = _bind_all(recipe, pool, drafts)
    pairing = StatisticsPairing(pool, bound, [models for _, models in drafts.pipelines])
    faults = _pool_faults(pool, bound) + _count_faults(drafts, bound) + _filter_faults(drafts, bound) + pairing.faults()
    if faults:
        raise RecipeError("\n".join(faults))
    faults = tensor_faults(recipe, pool, drafts) + pairing.model_faults()
    if faults:
        raise IncompatibleModels(faults)
    builder = _Builder(recipe, written or recipe, pool, bound, pairing)
    items = tuple(builder.item(number, one) for number, one in enumerate(drafts.items))
    if faults := builder.faults + pairing.tensor_faults():
        raise IncompatibleModels(faults)
    if len({item.key for item in items}) != len(items):
        raise RecipeError("two parts of the recipe make the same tensor")
    if not any(item.stages for item in items):
        raise RecipeError("nothing is left to merge: include, skip and the tensors' types leave only copies")
    names = tuple(dict.fromkeys(b.stage.name for stages_ in bound for b in stages_))
    notes = [*recipe.notes, *notes, *builder.notes(), *pairing.notes(), *_left_behind(recipe, pool, drafts)]
    return Plan(recipe, items, tuple(notes), pool.reference.tied, drafts.layers, names, pool.all, pairing.used)


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
            items += [Draft.plain(key, section.models, layout, len(pipelines) - 1) for key in section.keys]
        else:
            sliced = SlicedSection(section, pool, layout, pipelines)
            items += sliced.items
            dropped |= sliced.dropped
            layers[sliced.stack] = sliced.reference_layers
    items.sort(key=lambda item: natural(item.key))
    return Drafts(items, pipelines, frozenset(dropped), layers)


def _sections(recipe: Recipe, pool: ModelPool) -> Iterable[OutputSection]:
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
        yield OutputSection(keys, models, part.merge or recipe.merge, part.slices)
    if left:
        yield OutputSection(tuple(left), tuple(pool.models), recipe.merge, recipe.slices)


def _bind_all(recipe: Recipe, pool: ModelPool, drafts: Drafts) -> tuple[list[list[BoundStage]], list[str]]:
    bound, notes = [], []
    for calls, models in drafts.pipelines:
        stages_, said = bind(calls, list(pool.models), models)
        bound.append(stages_)
        notes += said
    return bound, list(dict.fromkeys(notes))


def _pool_faults(pool: ModelPool, bound: Sequence[Sequence[BoundStage]]) -> list[str]:
    faults = []
    for stages_ in bound:
        for b in stages_:
            if pool.base is None and b.stage.needs_base(b.values):
                faults.append(f"{b.stage.name} works on changes from a base, and none is given: {base_word()}")
    return list(dict.fromkeys(faults))


_FOR_MORE = {"slerp": "multislerp", "nuslerp": "multislerp"}
"""What merges any number of models as these merge two."""


def _count_faults(drafts: Drafts, bound: Sequence[Sequence[BoundStage]]) -> list[str]:
    """Methods that merge another number of models than they are given."""
    faults = []
    for stages_, (_, models) in zip(bound, drafts.pipelines, strict=True):
        for stage in (b.stage for b in stages_ if b.stage.kind == "method"):
            low, high = stage.models
            if low <= len(models) <= (high or len(models)):
                continue
            wanted = f"exactly {low}" if low == high else f"at least {low}"
            said = f"{stage.name} merges {wanted} model{'s' * (low > 1)}, got {len(models)} ({', '.join(models)})"
            if len(models) > low and stage.name in _FOR_MORE:
                said += f"; {pipeline([_FOR_MORE[stage.name]])} merges any number"
            elif len(models) < low:
                counted = f", or the base as one of them: {base_word()}" if low == high == 2 else ""
                said += f"; give {model_word()}{counted}"
            faults.append(said)
    return list(dict.fromkeys(faults))


def _filter_faults(drafts: Drafts, bound: Sequence[Sequence[BoundStage]]) -> list[str]:
    names = list(dict.fromkeys(name for d in drafts.items for name in (d.spot.name, *d.spot.names.values())))
    return [
        f"{b.stage.name}.{parameter}: the filter {pattern!r} matches no tensor (names look like {names[0]!r})"
        for stages_ in bound
        for b in stages_
        for parameter, value in b.values.items()
        for pattern in patterns_in(value)
        if not any(matches(pattern, name) for name in names)
    ]


def _left_behind(recipe: Recipe, pool: ModelPool, drafts: Drafts) -> list[str]:
    """Tensors that `skip` or `include` leave out and that the reference does not have either: they reach no output."""
    made = {one.key for one in drafts.items}
    notes = []
    for name, source in pool.all.items():
        unused = (key for key in source.tensors if key not in made and (name, key) not in drafts.dropped)
        gone = [key for key in unused if left_out(recipe, key)]
        if gone:
            some = ", ".join(gone[:3]) + (" ..." if gone[3:] else "")
            notes.append(f"{len(gone)} tensors of {name} are left behind: {some}")
    return notes


class _Builder:
    """Turns drafts into items; gathers faults and notes on the way."""

    def __init__(
        self,
        recipe: Recipe,
        written: Recipe,
        pool: ModelPool,
        bound: Sequence[Sequence[BoundStage]],
        pairing: StatisticsPairing,
    ):
        self._recipe, self._written, self._pool, self._bound, self._pairing = recipe, written, pool, bound, pairing
        self._dtype = dtypes.parse_dtype(recipe.dtype) if recipe.dtype else None
        self._cache: dict[tuple[Any, ...], tuple[RunStage, ...]] = {}
        self._orientations: dict[int, Orientation] = {}
        self._copied: dict[str, list[str]] = {}
        self.faults: list[str] = []

    def item(self, order: int, one: Draft) -> Item:
        reference = self._pool.reference
        base = Tap(BASE, self._pool.base, one.base_key) if self._pool.base else None
        taps = tuple(
            Tap(name, self._pool.models[name], key)
            for name, key in one.taps.items()
            if key in self._pool.models[name].tensors
        )
        first = base if base and one.base_key in base.source.tensors else taps[0] if taps else None
        if first is None:
            first = Tap(self._pool.reference_name, reference, one.key)
        info = first.source.tensors[first.key]
        why = self._why_copied(one, info)
        if why is not None:
            self._copied.setdefault(why, []).append(one.key)
            code = self._dtype if self._dtype and info.dtype in dtypes.FLOATS else info.dtype
            return Item(one.key, order, _in_dtype(info, code), one.depth, first)
        code = self._dtype or info.dtype
        if code not in dtypes.WRITABLE:
            self.faults.append(
                f"{one.key!r} is stored in 8 bits, which is read but not written; set {word('dtype', 'bfloat16')}"
            )
        missing = [name for name, key in one.taps.items() if key not in self._pool.models[name].tensors]
        if missing and base is not None:
            taps += tuple(Tap(name, base.source, one.base_key) for name in missing)
            taps = tuple(sorted(taps, key=lambda tap: list(one.taps).index(tap.model)))
        matrices = self._matrices(one, first)
        statistics = self._pairing.taps(one, info.shape, matrices)
        run, unit = self._stages(one, matrices, tuple(one.taps), bool(statistics))
        base = base if any(one.stage.needs_base(one.parameters) for one in run) else None
        known = None if matrices.as_stored(info.shape) else matrices
        if known is not None and known.doubt and unit != "element":
            self._doubt(one.key, known, run)
        return Item(one.key, order, _in_dtype(info, code), one.depth, base, taps, run, unit, statistics, matrices=known)

    def notes(self) -> list[str]:
        return [
            f"{len(keys)} tensors are copied from {self._pool.reference_name} ({why}): {', '.join(keys[:3])}"
            + (" ..." if len(keys) > 3 else "")
            for why, keys in self._copied.items()
        ]

    def _why_copied(self, one: Draft, info: TensorInfo) -> str | None:
        if left_out(self._written, one.key):
            return "left out by the recipe"
        if left_out(self._recipe, one.key):
            unmerged = self._pool.reference.unmerged.items()
            why = (why for pattern, why in unmerged if matches(pattern, one.key))
            return next(why, "the vision tower, which all models share")
        if info.dtype not in dtypes.FLOATS:
            return "integers and flags"
        if info.count == 0:
            return "empty"
        return None

    def _matrices(self, one: Draft, first: Tap) -> Matrices:
        """The linear layers in a tensor. Stages that take any element need not know, unless they draw by its place."""
        if all(b.stage.unit == "element" and "rng" not in b.stage.asks for b in self._bound[one.pipeline]):
            return Matrices(1, first.source.tensors[first.key].shape)
        if (convolution := self._pairing.convolution(one, first.source.tensors[first.key].shape)) is not None:
            return convolution
        known = self._orientations.get(id(first.source))
        if known is None:
            known = self._orientations[id(first.source)] = Orientation.in_source(first.source, self._pool.reference)
        return known.of(first.key)

    def _doubt(self, key: str, matrices: Matrices, run: Sequence[RunStage]) -> None:
        name = max(run, key=lambda r: _COARSENESS[r.stage.unit_for(r.parameters)]).stage.name
        self.faults.append(
            f"{name} works on the rows or matrices of {key!r}, but {matrices.doubt}; give it a part of its own with an "
            f"element-wise method such as average, or {skip_remedy(key)}"
        )

    def _stages(
        self, one: Draft, matrices: Matrices, models: tuple[str, ...], measured: bool
    ) -> tuple[tuple[RunStage, ...], Unit]:
        matrix = Layout.is_matrix(one.key, matrices.shape)
        bound = self._bound[one.pipeline]
        fixed = all(constant(value) for b in bound for value in b.values.values())
        key = (one.pipeline, models, matrix, measured, None if fixed else one.key)
        if key not in self._cache:
            self._cache[key] = self._resolve(one, bound, models, matrix, measured)
        run = self._cache[key]
        unit = max((r.stage.unit_for(r.parameters) for r in run), key=_COARSENESS.__getitem__)
        return run, unit

    def _resolve(
        self, one: Draft, bound: Sequence[BoundStage], models: tuple[str, ...], matrix: bool, measured: bool
    ) -> tuple[RunStage, ...]:
        run = []
        for position, b in enumerate(bound):
            values = {
                name: resolve(parameter, b.values[name], one.spot, models)
                for name, parameter in b.stage.parameters.items()
            }
            self._check_fold(b, values, one.key)
            stage = b.stage
            for name, parameter in stage.parameters.items():
                if parameter.names_model and values[name] is not None and values[name] not in models:
                    self.faults.append(f"{stage.name}.{name}: {values[name]!r} is not merged into {one.key!r}")
            unmeasured = stage.statistics is not None and not measured
            if unmeasured or (not matrix and stage.unit_for(values) == "matrix"):
                if stage.kind != "method":
                    continue
                stage, values = _plainly(stage, values, len(models))
            run.append(RunStage(stage, one.pipeline, position, values))
        return tuple(run)

    def _check_fold(self, b: BoundStage, values: Mapping[str, Any], key: str) -> None:
        """Ask for the fold now: values that do not go together are refused here, not in the middle of the run."""
        varying = [name for name in b.stage.fold_parameters if not constant(b.values[name])]
        try:
            fold = b.stage.fold_for(values)
        except RecipeError as error:
            raise RecipeError(f"{key!r}: {error}" if varying else str(error)) from None
        if varying and fold is not None and fold.scope == "model":
            raise RecipeError(
                f"{b.stage.name} ranks over the whole model, so {', '.join(varying)} cannot vary by tensor; "
                "rank within tensors instead (`trim: tensor`), or give one value"
            )


def _plainly(stage: Stage, values: Mapping[str, Any], models: int) -> tuple[Stage, dict[str, Any]]:
    """What a whole-matrix method does to norms, biases and embeddings, and any method to what it has no statistics of.

    The mean change, or the sum, under its own scale; the average under its own weights.
    """
    if stage.space_for(values) == "weight":
        return stages["average"], {"weights": values.get("weights", [1.0] * models), "normalize": True}
    scale, mean = values.get("scale", 1.0), stage.elsewhere == "mean"
    return stages["task_arithmetic"], {"scale": scale, "weights": [1.0] * models, "normalize": mean}


def _in_dtype(info: TensorInfo, code: str) -> TensorInfo:
    return info if code == info.dtype else TensorInfo(code, info.shape)
