"""A composed config in FusionBench's words -> an experiment in Smelt's: a recipe, tasks, and where the results go.

Pools are read as FusionBench writes them (a list of {name, path} with `_pretrained_` among them, or a table) and as
Smelt does (`base` and `models`). Every fault of a config is reported at once, under the name that was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, ValidationError

from smelt.compat.fusionbench.methods import Cosine, meaning_of
from smelt.errors import RecipeError, SmeltError, listed, shortened, unknown
from smelt.files.schema import Strict, faults_of, given_in, place_of, reason_of
from smelt.recipe.schema import Pool, Recipe

__all__ = ["EvaluationPlan", "Experiment", "read_experiment", "read_model_pool"]

_PRETRAINED = "_pretrained_"


@dataclass(frozen=True)
class EvaluationPlan:
    """What the model is evaluated on. `text_from` is the model whose text tower makes the heads."""

    tasks: tuple[str, ...]
    text_from: str | None
    split: str
    batch: int
    limit: int | None


@dataclass(frozen=True)
class Experiment:
    """One run: merge by the recipe (or take the base as it is), analyse, evaluate, report."""

    method: str
    pool: Pool
    recipe: Recipe | None
    cosine: Cosine | None
    evaluation: EvaluationPlan | None
    learned: Path | None
    """What was learned before, in the place of learning."""
    save: Path | None
    """Where what is learned goes."""
    report: Path | None
    out: Path | None
    include: tuple[str, ...]
    allow_pickle: bool
    force: bool
    seed: int
    device: str
    threads: int | None
    print_config: bool
    dry_run: bool


def _as_table(value: Any) -> Any:
    """[{name: n, path: p}, ...] -> {n: p, ...}."""
    if not isinstance(value, list):
        return value
    table: dict[str, Any] = {}
    for entry in value:
        if not isinstance(entry, Mapping) or entry.keys() != {"name", "path"}:
            raise ValueError(f"a model is written as {{name: ..., path: ...}}, got {entry!r}")
        if entry["name"] in table:
            raise ValueError(f"two models are named {entry['name']!r}")
        table[entry["name"]] = entry["path"]
    return table


_Patterns: TypeAlias = Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]
_Text: TypeAlias = Annotated[str, Field(min_length=1)]
_Path: TypeAlias = Annotated[_Text | None, BeforeValidator(lambda v: None if v is False else v)]


class _ModelPool(Strict, strict=True):
    type: Literal["huggingface_clip_vision"] | None = None
    base: _Text | None = None
    models: Annotated[dict[str, _Text], BeforeValidator(_as_table)]
    include: _Patterns | None = None
    skip: _Patterns = []
    missing: Literal["refuse", "base"] | None = None
    config: str | None = None
    allow_pickle: bool = False

    def read(self) -> tuple[Pool, dict[str, Any]]:
        """The pool, and the words of the recipe that come with models of this kind."""
        models = dict(self.models)
        pretrained = models.pop(_PRETRAINED, None)
        if self.base and pretrained:
            raise RecipeError(f"modelpool: `base` and a model named {_PRETRAINED} mean the same; give one of them")
        base = self.base or pretrained
        if not models:
            raise RecipeError("modelpool.models: there is no fine-tuned model among them")
        pool = Pool(base=_ref(base) if base else None, models={name: _ref(path) for name, path in models.items()})
        kind = _words_of_clip_vision() if self.type else {}
        own = {"include": self.include, "skip": self.skip or None, "missing": self.missing, "config": self.config}
        words = kind | {word: value for word, value in own.items() if value is not None}
        if base is None:
            words = {word: value for word, value in words.items() if value != "base"}
        return pool, words


def read_model_pool(content: Any, where: str) -> tuple[Pool, dict[str, Any]]:
    """A pool on its own, as a config of `modelpool` holds it: the pool, and the words of the recipe that go with it."""
    try:
        read = _ModelPool.model_validate(content)
    except ValidationError as error:
        faults = faults_of(error, lambda one: f"{place_of(one)}: {_reason(one)}")
        raise RecipeError(f"{where}: not a pool of models ({'; '.join(faults)})") from None
    pool, words = read.read()
    return pool, {**words, **({"allow_pickle": True} if read.allow_pickle else {})}


def _words_of_clip_vision() -> dict[str, Any]:
    """Only the picture tower is merged. Public fine-tunes hold that tower alone, with a config of its own, and lack a
    buffer of positions that older files carry.
    """
    from smelt.models.families.family import families

    return {"include": list(families["clip"].merged), "missing": "base", "config": "base"}


class _NoTasks(Strict, strict=True):
    type: Literal["dummy"]


class _Tasks(Strict, strict=True):
    type: Literal["clip_vit_classification"]
    tasks: Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v), Field(min_length=1)]
    clip_model: _Text | None = None
    split: str = "test"
    batch_size: Annotated[int, Field(gt=0)] = 256


class _ExperimentConfig(Strict, strict=True):
    method: dict[str, Any]
    modelpool: _ModelPool
    taskpool: Annotated[_NoTasks | _Tasks, Field(discriminator="type")]
    save_report: _Path = None
    merged_model_save_path: _Path = None
    output: _Path = None
    force: bool = False
    print_config: bool = True
    dry_run: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: str | None = None
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    threads: Annotated[int, Field(gt=0)] | None = None
    limit: Annotated[int, Field(gt=0)] | None = None


def read_experiment(config: Mapping[str, Any]) -> Experiment:
    """The experiment that a composed config means, checked as far as that is possible without opening a model."""
    try:
        run = _ExperimentConfig.model_validate(dict(config))
    except ValidationError as error:
        raise RecipeError(_explain(error)) from None
    pool, words = run.modelpool.read()
    meaning = meaning_of(run.method)
    if run.output and run.merged_model_save_path:
        raise RecipeError("`output` and `merged_model_save_path` mean the same; give one of them")
    if not meaning.merge and not pool.base:
        raise RecipeError(f"{run.method['name']} needs the pre-trained model; give modelpool.base")
    out = run.output or run.merged_model_save_path
    if out and not meaning.merge:
        raise RecipeError(f"{run.method['name']} merges nothing; there is no model to save in {out!r}")
    if meaning.merge:
        words |= {"skip": [*words.get("skip", []), *meaning.skip]} if meaning.skip else {}
        more = {
            "merge": meaning.merge,
            "data": meaning.data,
            "seed": run.seed,
            "dtype": run.dtype,
            "allow_pickle": run.modelpool.allow_pickle,
        }
        recipe = Recipe.parse({"pool": pool.model_dump(), **words, **more})
        _check_stages(recipe)
    return Experiment(
        method=run.method["name"],
        pool=pool,
        recipe=recipe if meaning.merge else None,
        cosine=meaning.analysis,
        evaluation=_evaluation(run, pool),
        learned=meaning.learned,
        save=meaning.save,
        report=Path(run.save_report) if run.save_report else None,
        out=Path(out) if out else None,
        include=tuple(words.get("include", ())),
        allow_pickle=run.modelpool.allow_pickle,
        force=run.force,
        seed=run.seed,
        device=run.device,
        threads=run.threads,
        print_config=run.print_config,
        dry_run=run.dry_run,
    )


def _check_stages(recipe: Recipe) -> None:
    """What the plan would refuse from the recipe alone: parameters, the order of stages, the number of models."""
    from smelt.formats.dtype import parse_dtype
    from smelt.prepare.prepare import check_recipe, needs_data
    from smelt.recipe.pipeline import bind

    if recipe.dtype:
        parse_dtype(recipe.dtype)
    if needs_data(recipe):
        if not recipe.pool.base:
            raise RecipeError(f"{recipe.merge[0].name} starts from the pre-trained model; give modelpool.base")
        check_recipe(recipe)
        return
    count = len(recipe.pool.models)
    for bound in bind(recipe.merge, list(recipe.pool.models))[0]:
        low, high = bound.stage.models
        if bound.stage.kind == "method" and not low <= count <= (high or count):
            wanted = f"exactly {low}" if low == high else f"at least {low}"
            raise RecipeError(f"{bound.stage.name} merges {wanted} models, and the pool has {count}")
        if bound.stage.needs_base(bound.values) and not recipe.pool.base:
            raise RecipeError(f"{bound.stage.name} works on changes from the pre-trained model; give modelpool.base")


def _evaluation(run: _ExperimentConfig, pool: Pool) -> EvaluationPlan | None:
    """The tasks by name, each known to exist."""
    if isinstance(run.taskpool, _NoTasks):
        return None
    from smelt.tasks.registry import find_tasks

    chosen = run.taskpool
    try:
        for task in find_tasks(chosen.tasks):
            task.check_split(chosen.split)
    except SmeltError as error:
        raise type(error)(f"taskpool: {error}") from None
    text = _ref(chosen.clip_model) if chosen.clip_model else pool.base
    return EvaluationPlan(tuple(chosen.tasks), text, chosen.split, chosen.batch_size, run.limit)


def _ref(path: str) -> str:
    """FusionBench's `org/name` is a model on the hub unless there is such a folder; Smelt's references stay."""
    plain = ":" not in path and path.count("/") == 1 and not path.startswith((".", "/", "~"))
    return f"hf:{path}" if plain and not Path(path).exists() else path


def _explain(error: ValidationError) -> str:
    return listed(list(dict.fromkeys(faults_of(error, _fault))), "the config has faults:")


def _fault(fault: Any) -> str:
    path = [shortened(str(part)) for part in fault["loc"] if not _is_branch(str(part))]
    where, last = ".".join(path[:-1]), path[-1] if path else ""
    if fault["type"] == "extra_forbidden":
        return unknown(f"setting of {where!r}" if where else "setting", last, _fields(path, fault))
    if fault["type"] in ("missing", "union_tag_not_found"):
        return f"{'taskpool.type' if fault['type'] == 'union_tag_not_found' else '.'.join(path)} is missing"
    if fault["type"] == "union_tag_invalid":
        return f"taskpool.type: {unknown('type', fault['ctx']['tag'], _branches())}"
    return f"{'.'.join(path)}: {_reason(fault)}, got {given_in(fault)}"


def _reason(fault: Any) -> str:
    if fault["type"] == "string_pattern_mismatch":
        return "write cpu, cuda or cuda:1"
    return reason_of(fault).lower()


def _is_branch(part: str) -> bool:
    """The parts of a fault's place that name a branch of a union, which nobody typed."""
    return part in _branches() or part.startswith(("constrained-", "literal[", "function-"))


def _branches() -> list[str]:
    return [get_args(model.model_fields["type"].annotation)[0] for model in (_NoTasks, _Tasks)]


def _fields(path: list[str], fault: Any) -> list[str]:
    if len(path) == 1:
        return list(_ExperimentConfig.model_fields)
    if path[0] == "modelpool":
        return list(_ModelPool.model_fields)
    return list((_Tasks if "clip_vit_classification" in fault["loc"] else _NoTasks).model_fields)
