"""The public call: `smelt.neulig(models, base=…, out=…)` -> a folder. The command `smelt neulig` is this function.

OUT/neulig.json               the pool, the setting, every epoch's losses, the CoopVec Map
OUT/portland.safetensors      the fitted Portland (portland.json beside it)
OUT/recipes/TASK.yaml         the Map's model of one task: an ordinary recipe for `smelt merge`
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import OutputError, RecipeError, unknown
from smelt.evaluate.row import DataBudget

if TYPE_CHECKING:
    from smelt.learn.neulig.classifier import Collaboration

__all__ = ["neulig"]

_EXAMPLES, _VALIDATION = 500, 100


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
    **setting: Any,
) -> Collaboration:
    """Fit Portland for a group of experts, and write it with its CoopVec Map and a recipe for each task.

    `models` are references by name; every expert's task has its name unless `tasks` says otherwise. `examples` of each
    `train` split are learned from and `validation` of each `val` split choose the epoch (None: all). Other words are
    those of Setting: `boosting` ("supervised", or "semi" without labels), `alignment` ("scalar", "gram", "off"),
    `epochs`, `rate`, `batch`, `fraction`, `seed`. `smelt.evaluate(out)` asks the merged models.
    """
    from smelt.evaluate.pairs import tasks_for
    from smelt.learn.neulig.alignment import Alignment
    from smelt.learn.neulig.classifier import load_collaboration
    from smelt.learn.neulig.company import BASE, company_of
    from smelt.learn.neulig.coopmap import coopvec_map
    from smelt.learn.neulig.fit import Setting, fit
    from smelt.learn.neulig.note import NeuLigNote
    from smelt.recipe.schema import DataUse, Pool

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    folder = Path(out)
    if folder.exists() and not force:
        raise OutputError(f"{folder}: is there already; give another folder, or force to replace it")
    if len(models) < 2:
        raise RecipeError(f"collaboration needs at least two experts, got {len(models)}")
    if BASE in models:
        raise RecipeError(f"an expert cannot be called {BASE!r}; that is the base's name")
    strange = sorted(setting.keys() - Setting.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a setting", strange[0], list(Setting.__dataclass_fields__)))
    how = Setting(**{"batch": 32, "epochs": 20, **setting})
    names = list(models)
    found = tasks_for(names, DataUse(tasks=dict(tasks or {})))
    company = company_of({"base": base, "models": dict(models)}, device)
    parts = {
        split: {name: company.features(found[name], split, count).of(names) for name in names}
        for split, count in (("train", examples), ("val", validation))
    }
    fitted = fit(
        parts["train"],
        how,
        alignment=Alignment.of(company.experts(names), how.alignment),
        classify=company.everyone.network.classify,
        validation=parts["val"],
    )
    table = coopvec_map(fitted.portland, parts["train"])
    images = sum(max(1, round(how.fraction * len(one))) for one in parts["train"].values())
    images += sum(map(len, parts["val"].values()))
    labels = images if how.boosting == "supervised" else 0
    pool = Pool(base=base, models=dict(models))
    note = NeuLigNote(
        pool=pool,
        tasks={name: task.name for name, task in found.items()},
        setting={word: getattr(how, word) for word in Setting.__dataclass_fields__},
        chosen=fitted.chosen,
        losses=[{"epoch": e.number, "train": e.loss, "val": e.validation_loss} for e in fitted.history],
        map={task: dict(zip(table.experts, table.row(task).tolist(), strict=True)) for task in table.tasks},
        data_budget=DataBudget(split="train and val", images=images, labels=labels),
        experts={name: company.everyone.hashes[name] for name in (BASE, *names)},
    )
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        (draft / "recipes").mkdir(parents=True)
        fitted.portland.save(draft)
        for name in names:
            table.recipe(name, pool, include=list(include)).save(draft / "recipes" / f"{name}.yaml")
        note.save(draft)
        if folder.exists():
            shutil.rmtree(folder)
        draft.replace(folder)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return load_collaboration(folder, device=device)
