"""A composed config in FusionBench's words -> an experiment in Smelt's: a recipe, tasks, and where the results go.

Pools are read as FusionBench writes them (a list of {name, path} with `_pretrained_` among them, or a table; `_target_`
for the kind) and as Smelt does (`base` and `models`). Every fault of a config is reported at once, under the name that
was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, ValidationError

from smelt.compat.fusionbench.methods import Cosine, Meaning, meaning_of
from smelt.compat.fusionbench.names import RefusedName, pool_type
from smelt.errors import RecipeError, SmeltError, listed, shortened, unknown
from smelt.files.schema import Strict, faults_of, given_in, place_of, reason_of
from smelt.recipe.schema import Pool, Recipe
from smelt.tasks.corruptions.corruption import CLEAN, STORED, Corruption
from smelt.tasks.corruptions.parameters import SetName

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
    corruption: str | None = None


@dataclass(frozen=True)
class Experiment:
    """One run: merge by the recipe (or take the base as it is), analyse, evaluate, report."""

    method: str
    pool: Pool
    recipe: Recipe | None
    cosine: Cosine | None
    ensemble: dict[str, Any] | None
    """The models are asked together: words of `smelt.ensemble`."""
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
    """[{name: n, path: p}, ...] or {n: {pretrained_model_name_or_path: p}, ...} -> {n: p, ...}."""
    if isinstance(value, Mapping):
        return {name: _path_in(model) for name, model in value.items()}
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


def _path_in(model: Any) -> Any:
    """FusionBench may write the call that loads a model: what it is called with is what counts."""
    word = "pretrained_model_name_or_path"
    return model[word] if isinstance(model, Mapping) and word in model else model


_IDLE = ("_recursive_", "processor", "tokenizer", "platform", "enable_lazy_loading", "model_kwargs", "train_datasets")
"""Words of FusionBench's pools that say how it loads; here models are streamed, and data follow from the tasks."""


def _model_pool_of(value: Any) -> Any:
    """A pool of FusionBench's, which names a class, in the words of one of Smelt's."""
    if not isinstance(value, Mapping) or "_target_" not in value:
        return value
    words = {key: one for key, one in value.items() if key not in ("_target_", "test_datasets", *_IDLE)}
    if isinstance(words.get("models"), Mapping):  # models and their tasks are paired by name
        words["models"] = {str(name).replace("-", "_"): model for name, model in words["models"].items()}
    return {"type": pool_type("modelpool", str(value["_target_"])), **words}


def _task_pool_of(value: Any) -> Any:
    """The same for tasks: the names of the test sets are the tasks."""
    if not isinstance(value, Mapping) or "_target_" not in value:
        return value
    words = {key: one for key, one in value.items() if key not in ("_target_", *_IDLE, "data_processor")}
    sets, kwargs = words.pop("test_datasets", None), words.pop("dataloader_kwargs", None) or {}
    words |= {key: kwargs[key] for key in ("batch_size", "num_workers") if key in kwargs}
    if isinstance(sets, Mapping):
        words["tasks"] = [str(name).replace("-", "_") for name in sets]
    words = {key: _path_in(one) for key, one in words.items() if not key.startswith("layer_wise_feature")}
    base = words.pop("base_model", None)
    return {"type": pool_type("taskpool", str(value["_target_"])), **({"clip_model": base} if base else {}), **words}


_Patterns: TypeAlias = Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]
_Text: TypeAlias = Annotated[str, Field(min_length=1)]
_Path: TypeAlias = Annotated[_Text | None, BeforeValidator(lambda v: None if v is False else v)]


_Kind: TypeAlias = Literal["huggingface_clip_vision", "causal_lm", "seq2seq_lm", "image_classification"]


class _ModelPool(Strict, strict=True):
    type: _Kind | None = None
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
        if not models and base:
            models = {_PRETRAINED: base}  # one model as it is
        if not models:
            raise RecipeError("modelpool.models: there is no fine-tuned model among them")
        pool = Pool(base=_ref(base) if base else None, models={name: _ref(path) for name, path in models.items()})
        kind = _words_of_clip_vision() if self.type == "huggingface_clip_vision" else {}
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
    model_save_path: _Path = None


_Names: TypeAlias = Annotated[
    list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v), Field(min_length=1)
]

_THEIRS = {"jpeg_compression": "jpeg"}
"""Corruptions that have another name in FusionBench."""


class _Tasks(Strict, strict=True):
    type: Literal["clip_vit_classification"]
    tasks: _Names
    clip_model: _Text | None = None
    split: str = "test"
    batch_size: Annotated[int, Field(gt=0)] = 256
    num_workers: int = 0
    corruption: _Text | None = None
    severity: int | Literal["stored"] = 1
    """1 to 5, or `stored`: the damaged pictures that the data sets themselves hold, which are FusionBench's own."""
    corrupted_by: SetName = "cifar_c"

    @property
    def damage(self) -> str | None:
        """The corruption as an evaluation names it: `jpeg@1`."""
        if self.corruption in (None, CLEAN):
            return None
        assert self.corruption is not None
        kind, at, severity = self.corruption.partition("@")
        name = f"{_THEIRS.get(kind, kind)}@{severity if at else self.severity}"
        return Corruption.parse(name).name if name.endswith(STORED) else Corruption.parse(name, self.corrupted_by).name


class _Harness(Strict, strict=True):
    type: Literal["lm_eval"]
    tasks: _Names
    batch_size: Annotated[int, Field(gt=0)] = 1
    apply_chat_template: Literal[False] = False
    include_path: None = None
    output_path: None = None
    log_samples: Literal[False] = False
    verbosity: str | None = None


class _SaveWords(Strict, strict=True):
    """What FusionBench can be told about saving, where it says what happens here in any case."""

    push_to_hub: Literal[False] = False
    save_tokenizer: Literal[True] = True
    safe_serialization: Literal[True] = True


class _Folders(Strict, strict=True):
    log_dir: _Path = None
    output_dir: _Text = "outputs"


class _ExperimentConfig(Strict, strict=True):
    method: dict[str, Any]
    modelpool: Annotated[_ModelPool, BeforeValidator(_model_pool_of)]
    taskpool: Annotated[
        Annotated[_NoTasks | _Tasks | _Harness, Field(discriminator="type")], BeforeValidator(_task_pool_of)
    ]
    save_report: _Text | Literal[False] | None = None
    merged_model_save_path: _Path = None
    merged_model_save_kwargs: _SaveWords | None = None
    output: _Path = None
    path: _Folders = _Folders()
    force: bool = False
    print_config: bool = True
    print_function_call: bool = True
    dry_run: bool = False
    fast_dev_run: bool = False
    corruption: _Text | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dtype: str | None = None
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    threads: Annotated[int, Field(gt=0)] | None = None
    limit: Annotated[int, Field(gt=0)] | None = None

    def place(self, text: str | None, otherwise: str | None = None) -> Path | None:
        """A path in which {log_dir} stands for the run's folder; without one `otherwise` does, or there is no path."""
        folder = self.path.log_dir or otherwise
        if not text or ("{log_dir}" in text and not folder):
            return None
        return Path(text.replace("{log_dir}", folder or ""))


def read_experiment(config: Mapping[str, Any]) -> Experiment:
    """The experiment that a composed config means, checked as far as that is possible without opening a model."""
    try:
        run = _ExperimentConfig.model_validate(dict(config))
    except ValidationError as error:
        raise RecipeError(_explain(error)) from None
    pool, words = run.modelpool.read()
    meaning = meaning_of(run.method)
    name = run.method["name"]
    out = _out(run, meaning)
    if not meaning.merge and not meaning.ensemble and not pool.base:
        raise RecipeError(f"{name} needs the pre-trained model; give modelpool.base")
    if out and not meaning.merge:
        raise RecipeError(f"{name} merges nothing; there is no model to save in {str(out)!r}")
    if (meaning.merge or meaning.ensemble) and list(pool.models) == [_PRETRAINED]:
        raise RecipeError(f"modelpool.models: there is no fine-tuned model among them, and {name} needs some")
    if meaning.ensemble and isinstance(run.taskpool, _NoTasks):
        raise RecipeError(f"{name} asks several models and makes none: give tasks (taskpool=...)")
    if meaning.merge:
        words |= {"include": meaning.include} if meaning.include else {}
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
        method=name,
        pool=pool,
        recipe=recipe if meaning.merge else None,
        cosine=_placed(meaning.analysis, run),
        ensemble=meaning.ensemble,
        evaluation=_evaluation(run, pool),
        learned=meaning.learned,
        save=meaning.save,
        report=None if run.save_report is False else run.place(run.save_report or "{log_dir}/program_report.json"),
        out=out,
        include=tuple(words.get("include", ())),
        allow_pickle=run.modelpool.allow_pickle,
        force=run.force,
        seed=run.seed,
        device=run.device,
        threads=run.threads,
        print_config=run.print_config,
        dry_run=run.dry_run,
    )


def _out(run: _ExperimentConfig, meaning: Meaning) -> Path | None:
    """The folder that gets the model, by whichever of its names; the method's own only where no other is given."""
    saved = run.taskpool.model_save_path if isinstance(run.taskpool, _NoTasks) else None
    given = {"output": run.output, "merged_model_save_path": run.merged_model_save_path, "model_save_path": saved}
    said = {word: text for word, text in given.items() if text}
    if len(said) > 1:
        raise RecipeError(f"{' and '.join(f'`{word}`' for word in said)} mean the same; give one of them")
    text = next(iter(said.values()), meaning.out)
    if said and run.place(text) is None:
        raise RecipeError(f"{next(iter(said))}: {{log_dir}} is not known; give path.log_dir")
    return run.place(text)


def _placed(analysis: Cosine | None, run: _ExperimentConfig) -> Cosine | None:
    if analysis is None:
        return None
    csv, picture = (
        run.place(str(path) if path else None, run.path.output_dir) for path in (analysis.csv, analysis.picture)
    )
    return replace(analysis, csv=csv, picture=picture)


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
    chosen, kind = run.taskpool, run.modelpool.type
    if isinstance(chosen, _NoTasks):
        return None
    if kind is not None and kind != _ASKED[chosen.type]:
        raise RefusedName(
            f"taskpool: {_SAID[chosen.type]}, and the pool has {_SAID[kind]}; taskpool=dummy merges them without",
            "kinds of models that Smelt does not evaluate",
        )
    from smelt.tasks.registry import find_tasks

    few = chosen.batch_size if run.fast_dev_run and run.limit is None else run.limit
    if isinstance(chosen, _Harness):
        tasks = tuple(task if ":" in task else f"lm-eval:{task}" for task in chosen.tasks)
        plan = EvaluationPlan(tasks, None, "test", chosen.batch_size, few)
    else:
        text = _ref(chosen.clip_model) if chosen.clip_model else pool.base
        plan = EvaluationPlan(tuple(chosen.tasks), text, chosen.split, chosen.batch_size, few, _damage(chosen))
    try:
        for task in find_tasks(list(plan.tasks)):
            task.check_split(plan.split)
    except SmeltError as error:
        raise type(error)(f"taskpool: {error}") from None
    return plan


def _damage(tasks: _Tasks) -> str | None:
    try:
        return tasks.damage
    except RecipeError as error:
        raise RecipeError(f"taskpool.corruption: {error}") from None


_ASKED = {"clip_vit_classification": "huggingface_clip_vision", "lm_eval": "causal_lm"}
_SAID = {
    "clip_vit_classification": "its tasks are for CLIP models",
    "lm_eval": "its tasks are for causal language models",
    "huggingface_clip_vision": "CLIP models",
    "causal_lm": "causal language models",
    "seq2seq_lm": "sequence-to-sequence models",
    "image_classification": "classifiers with heads of their own",
}


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
    return [get_args(model.model_fields["type"].annotation)[0] for model in (_NoTasks, _Tasks, _Harness)]


def _fields(path: list[str], fault: Any) -> list[str]:
    if len(path) == 1:
        return list(_ExperimentConfig.model_fields)
    if path[0] == "modelpool":
        return list(_ModelPool.model_fields)
    if path[0] in ("path", "merged_model_save_kwargs"):
        return list((_Folders if path[0] == "path" else _SaveWords).model_fields)
    branches: dict[str, type[Strict]] = dict(zip(_branches(), (_NoTasks, _Tasks, _Harness), strict=True))
    return list(next(model for tag, model in branches.items() if tag in fault["loc"]).model_fields)
