"""The public call: `smelt.neulig(models, base=…, out=…)` -> a folder. The command `smelt neulig` is this function.

`models` may be a recipe, whose pool it then is; how it merges is NeuLig's to say.

OUT/neulig.json               the pool, the setting, every epoch's losses, the CoopVec Map
OUT/portland.safetensors      the fitted Portland (portland.json beside it)
OUT/recipes/TASK.yaml         the Map's model of one task: an ordinary recipe for `smelt merge`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from smelt.errors import RecipeError, unknown
from smelt.files.identity import FileIdentity, check_unchanged
from smelt.files.remote_code import takes_trust
from smelt.files.writing import atomic_folder, check_overwrite
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from smelt.learning.neulig.classifier import Collaboration
    from smelt.learning.neulig.fit import FitWords
    from smelt.recipe.schema import Pool
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["neulig"]

_EXAMPLES, _VALIDATION = 500, 100
_WORDS = frozenset({"pool", "merge", "include", "data", "seed", "allow_pickle"})
"""Of a recipe that are looked at, or (`merge`, its `seed`) have nothing to say here."""


@takes_trust
def neulig(
    models: Mapping[str, str] | Recipe | str | Path,
    *,
    base: str | None = None,
    out: str | Path | None = None,
    tasks: Mapping[str, str] | None = None,
    examples: int | None = _EXAMPLES,
    validation: int | None = _VALIDATION,
    include: tuple[str, ...] | None = None,
    test: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    threads: int | None = None,
    force: bool = False,
    quiet: bool = True,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    **setting: Unpack[FitWords],
) -> Collaboration:
    """Fit Portland for a group of experts, and write it with its CoopVec Map and a recipe for each task.

    `models` are references by name and `base` is what all were fine-tuned from; or `models` is a recipe (a Recipe, a
    table, the path of a YAML file) with such a pool. `include` are patterns of the tensors that are merged, the picture
    tower's by default. Every expert's task has its name unless `tasks` (or the recipe's `data.tasks`) says otherwise.
    `examples` of each `train` split are learned from and `validation` of each `val` split choose the epoch (None: all).
    With `test` the folder's models are asked at both levels on so many (`limit`; None: all) pictures of each `test`
    split: `scores` has Mer., Ens. and Gap. `out` is the folder; for a recipe's file its name with `-neulig` by default.
    Other words are those of FitSettings: `boosting` ("supervised", or "semi" without labels), `alignment` ("scalar",
    "gram", "off"), `alignment_weight`, `epochs`, `rate`, `batch`, `fraction`, `seed`. `smelt.evaluate(out)` asks the
    merged models.
    """
    from smelt.learning.neulig.classifier import load_collaboration
    from smelt.learning.neulig.fit import FitSettings
    from smelt.learning.neulig.loaded_experts import BASE, load_experts
    from smelt.learning.neulig.note import MARK, NeuLigNote
    from smelt.learning.neulig.portland_fitter import PortlandFitter
    from smelt.learning.neulig.scores import level_scores
    from smelt.system.threads import torch_threads

    asked = _request(models, base, tasks, include, allow_pickle)
    pool, allow_pickle, names = asked.pool, asked.allow_pickle, list(asked.pool.models)
    folder = _folder(out, models)
    _check_names(names, BASE)
    strange = sorted(setting.keys() - FitSettings.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a setting", strange[0], list(FitSettings.__dataclass_fields__)))
    words: FitWords = {"batch": 32, "epochs": 20, **setting}
    how = FitSettings(**words)
    seen = _check_output(folder, pool, force, allow_pickle)
    found = _picture_tasks(names, asked.tasks)
    with torch_threads(threads):
        company = load_experts(pool.model_dump(), device, allow_pickle=allow_pickle)
        portlands = PortlandFitter(company, names, found, examples=examples, validation=validation)
        fitted = portlands.fit(how)
        table = portlands.map(fitted, how)
    note = NeuLigNote(
        pool=_seen_from(pool, folder),
        tasks={name: task.name for name, task in found.items()},
        setting={word: getattr(how, word) for word in FitSettings.__dataclass_fields__},
        chosen=fitted.chosen,
        losses=[{"epoch": e.number, "train": e.loss, "val": e.validation_loss} for e in fitted.history],
        map={task: dict(zip(table.experts, table.row(task).tolist(), strict=True)) for task in table.tasks},
        data_budget=portlands.budget(how),
        experts={name: company.hashes[name] for name in (BASE, *names)},
        allow_pickle=allow_pickle,
    )
    tower = company.everyone.network.keys[0].partition(".")[0]
    merged: dict[str, Any] = {"include": list(asked.include or [f"{tower}.*"])}
    merged |= {"allow_pickle": True} if allow_pickle else {}
    with atomic_folder(folder, replace=True, fault="cannot be written") as draft:
        (draft / "recipes").mkdir()
        fitted.portland.save(draft)
        for name in names:
            recipe = table.recipe(
                name, _seen_from(pool, folder / "recipes"), include=list(asked.include or [f"{tower}.*"])
            )
            recipe.save(draft / "recipes" / f"{name}.yaml")
        note.save(draft)
        check_unchanged(seen)
        check_overwrite(folder, MARK, force=force)  # what appeared there meanwhile is kept
    made = load_collaboration(folder, device=device)
    if not test:
        return made
    return replace(made, scores=level_scores(made, list(found.values()), limit=limit, threads=threads, quiet=quiet))


class _Request(NamedTuple):
    """Who collaborates, and on what."""

    pool: Pool
    tasks: dict[str, str]
    include: tuple[str, ...]
    allow_pickle: bool


def _request(
    models: Any,
    base: str | None,
    tasks: Mapping[str, str] | None,
    include: tuple[str, ...] | None,
    allow_pickle: bool,
) -> _Request:
    """From models and their base, or from a recipe."""
    from smelt.engine.request import read_request
    from smelt.models.references import absolute_ref
    from smelt.recipe.schema import Pool

    if isinstance(models, Mapping) and "pool" not in models:
        if base is None:
            raise RecipeError("a collaboration needs the base that the models were fine-tuned from: it has the heads")
        return _Request(Pool(base=base, models=dict(models)), dict(tasks or {}), include or (), allow_pickle)
    request = read_request(models, base, None, {})
    recipe, where = request.recipe, request.relative_to
    idle = [word for word in recipe.dump() if word not in _WORDS]
    used = recipe.data.model_dump(exclude_defaults=True) if recipe.data else {}
    idle += [f"data.{word}" for word in used if word != "tasks"]
    if idle:
        raise RecipeError(f"{idle[0]}: NeuLig has no use for this word of a recipe; leave it out, or say it by a flag")
    if recipe.pool.base is None:
        raise RecipeError("a collaboration needs a base under `pool`: it has the text tower and the head of every task")

    def found(ref: str) -> str:
        return ref if where is None else absolute_ref(ref, where)

    pool = Pool(base=found(recipe.pool.base), models={name: found(ref) for name, ref in recipe.pool.models.items()})
    said = {**(recipe.data.tasks if recipe.data else {}), **(tasks or {})}
    return _Request(pool, said, include or tuple(recipe.include), allow_pickle or recipe.allow_pickle)


def _folder(out: str | Path | None, models: Any) -> Path:
    if out is not None:
        return Path(out)
    if isinstance(models, str | Path):
        return Path(f"{Path(models).stem}-neulig")
    raise RecipeError("out: say which folder Portland, its Map and its recipes are written to")


def _picture_tasks(names: list[str], tasks: Mapping[str, str]) -> dict[str, PictureTask]:
    from smelt.recipe.schema import DataUse
    from smelt.tasks.examples import tasks_for
    from smelt.tasks.pictures.task import PictureTask

    found = {}
    for name, task in tasks_for(names, DataUse(tasks=dict(tasks))).items():
        if task.kind != PictureTask.kind:
            raise RecipeError(
                f"a collaboration learns on pictures, but {task.name!r}, the task of {name}, is about texts"
            )
        found[name] = PictureTask.of(task)
    return found


def _check_names(names: list[str], base: str) -> None:
    if len(names) < 2:
        raise RecipeError(f"collaboration needs at least two experts, got {len(names)}")
    for name in names:
        if name == base:
            raise RecipeError(f"an expert cannot be called {base!r}; that is the base's name")
        if not name or "/" in name or name.startswith("."):
            raise RecipeError(f"{name!r} cannot be an expert's name, since files are called by it")


def _check_output(folder: Path, pool: Pool, force: bool, allow_pickle: bool) -> dict[Path, FileIdentity]:
    """Refuse an output that would destroy something, before anything is computed; gives the files of the pool."""
    from smelt.engine.pool import opened
    from smelt.engine.sink.output import check_output
    from smelt.formats.source import files_of
    from smelt.learning.neulig.note import MARK

    with opened(pool, allow_pickle=allow_pickle) as models:
        seen = files_of(models.all.values())
    check_output(folder, list(seen), force=force, needed=0, mark=MARK)
    return seen


def _seen_from(pool: Pool, folder: Path) -> Pool:
    """The pool as a file in `folder` writes it: paths relative to it, hub and zoo names as they are."""
    from smelt.runs.protocol import seen_from

    recipe = Recipe.parse({"pool": pool, "merge": "average"})
    return seen_from(recipe, None, folder).pool
