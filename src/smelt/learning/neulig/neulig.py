"""The public call: `smelt.neulig(models, base=…, out=…)` -> a folder. The command `smelt neulig` is this function.

OUT/neulig.json               the pool, the setting, every epoch's losses, the CoopVec Map
OUT/portland.safetensors      the fitted Portland (portland.json beside it)
OUT/recipes/TASK.yaml         the Map's model of one task: an ordinary recipe for `smelt merge`
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from smelt.errors import RecipeError, unknown
from smelt.files.identity import FileIdentity, check_unchanged
from smelt.files.remote_code import takes_trust
from smelt.files.writing import atomic_folder, check_overwrite
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from smelt.learning.neulig.classifier import Collaboration
    from smelt.learning.neulig.fit import FitWords
    from smelt.recipe.schema import Pool

__all__ = ["neulig"]

_EXAMPLES, _VALIDATION = 500, 100


@takes_trust
def neulig(
    models: Mapping[str, str],
    *,
    base: str,
    out: str | Path,
    tasks: Mapping[str, str] | None = None,
    examples: int | None = _EXAMPLES,
    validation: int | None = _VALIDATION,
    include: tuple[str, ...] = ("vision_model.*",),
    device: str = "cpu",
    threads: int | None = None,
    force: bool = False,
    trust_remote_code: bool = False,
    **setting: Unpack[FitWords],
) -> Collaboration:
    """Fit Portland for a group of experts, and write it with its CoopVec Map and a recipe for each task.

    `models` are references by name, `base` is what all were fine-tuned from, and `include` are patterns of the tensors
    that are merged. Every expert's task has its name unless `tasks` says otherwise. `examples` of each
    `train` split are learned from and `validation` of each `val` split choose the epoch (None: all). Other words are
    those of FitSettings: `boosting` ("supervised", or "semi" without labels), `alignment` ("scalar", "gram", "off"),
    `alignment_weight`, `epochs`, `rate`, `batch`, `fraction`, `seed`. `smelt.evaluate(out)` asks the merged models.
    """
    from smelt.learning.neulig.classifier import load_collaboration
    from smelt.learning.neulig.fit import FitSettings
    from smelt.learning.neulig.loaded_experts import BASE, load_experts
    from smelt.learning.neulig.note import MARK, NeuLigNote
    from smelt.learning.neulig.portland_fitter import PortlandFitter
    from smelt.recipe.schema import DataUse, Pool
    from smelt.system.threads import torch_threads
    from smelt.tasks.examples import tasks_for
    from smelt.tasks.pictures.task import PictureTask

    folder, names = Path(out), list(models)
    _check_names(names, BASE)
    strange = sorted(setting.keys() - FitSettings.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a setting", strange[0], list(FitSettings.__dataclass_fields__)))
    words: FitWords = {"batch": 32, "epochs": 20, **setting}
    how = FitSettings(**words)
    pool = Pool(base=base, models=dict(models))
    seen = _check_output(folder, pool, force)
    found = {}
    for name, task in tasks_for(names, DataUse(tasks=dict(tasks or {}))).items():
        if task.kind != PictureTask.kind:
            raise RecipeError(
                f"a collaboration learns on pictures, but {task.name!r}, the task of {name}, is about texts"
            )
        found[name] = PictureTask.of(task)
    with torch_threads(threads):
        company = load_experts({"base": base, "models": dict(models)}, device)
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
    )
    with atomic_folder(folder, replace=True, fault="cannot be written") as draft:
        (draft / "recipes").mkdir()
        fitted.portland.save(draft)
        for name in names:
            recipe = table.recipe(name, _seen_from(pool, folder / "recipes"), include=list(include))
            recipe.save(draft / "recipes" / f"{name}.yaml")
        note.save(draft)
        check_unchanged(seen)
        check_overwrite(folder, MARK, force=force)  # what appeared there meanwhile is kept
    return load_collaboration(folder, device=device)


def _check_names(names: list[str], base: str) -> None:
    if len(names) < 2:
        raise RecipeError(f"collaboration needs at least two experts, got {len(names)}")
    for name in names:
        if name == base:
            raise RecipeError(f"an expert cannot be called {base!r}; that is the base's name")
        if not name or "/" in name or name.startswith("."):
            raise RecipeError(f"{name!r} cannot be an expert's name, since files are called by it")


def _check_output(folder: Path, pool: Pool, force: bool) -> dict[Path, FileIdentity]:
    """Refuse an output that would destroy something, before anything is computed; gives the files of the pool."""
    from smelt.engine.pool import opened
    from smelt.engine.sink.output import check_output
    from smelt.formats.source import files_of
    from smelt.learning.neulig.note import MARK

    with opened(pool) as models:
        seen = files_of(models.all.values())
    check_output(folder, list(seen), force=force, needed=0, mark=MARK)
    return seen


def _seen_from(pool: Pool, folder: Path) -> Pool:
    """The pool as a file in `folder` writes it: paths relative to it, hub and zoo names as they are."""
    from smelt.runs.protocol import seen_from

    recipe = Recipe.parse({"pool": pool, "merge": "average"})
    return seen_from(recipe, None, folder).pool
