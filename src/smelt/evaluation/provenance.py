"""Provenance: a result with all that made it becomes a row, and the command line that gives the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.sink.provenance import MANIFEST
from smelt.errors import CorruptFile, NumericalError
from smelt.evaluation.row import UNITS, Level, Row, code_version, now
from smelt.files.reading import read_json
from smelt.files.remote_code import FLAG, is_trusted
from smelt.models.served.model import ServedModel
from smelt.recipe.schema import DataBudget
from smelt.tasks.corruptions.corruption import CLEAN, Corruption
from smelt.tasks.intervals import wilson
from smelt.tasks.registry import task_folders
from smelt.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.causal_lm.model import CausalLM
    from smelt.models.families.family import Classifier
    from smelt.models.families.image_text.model import ImageText
    from smelt.tasks.pictures.task import PictureTask
    from smelt.tasks.result import Result

__all__ = ["command_for", "row_of", "row_of_logits"]


def row_of(result: Result, model: Classifier | CausalLM | ImageText | ServedModel, /, **about: Any) -> Row:
    """A result with its provenance: of the model (and the recipe that merged it, by its manifest), and of the code."""
    low, high = result.interval
    known: dict[str, Any] = {
        "entry": _name(model.label),
        "label": _name(model.label),
        "model": model.label,
        "model_hash": model.hash,
        "code": code_version(),
        "device": model.device,
        "dtype": model.dtype,
        "command": "",
        "when": now(),
        **_recipe(getattr(model, "folder", None)),
        **({"way": "mix", "data_budget": model.data_budget} if hasattr(model, "data_budget") else {}),
        **_level(getattr(model, "level", None)),
        **getattr(model, "about", {}),
    }
    return Row(
        **{**known, **about},
        task=result.task,
        task_version=result.task_version,
        split=result.split,
        n=result.n,
        metric=result.metric,
        correct=result.correct,
        accuracy=result.accuracy,
        low=low,
        high=high,
        loss=result.loss,
        corruption=result.corruption,
        sandbox=result.sandbox,
        unit=None if result.unit in UNITS else result.unit,
    )


def row_of_logits(
    logits: Tensor, labels: Tensor, *, task: PictureTask, level: Level | None, about: Mapping[str, Any], **words: Any
) -> Row:
    """The row of scores [pictures, classes] and labels [pictures]; `about` and `words` are its other fields."""
    import torch

    if not bool(logits.isfinite().all()):
        raise NumericalError(f"{task.name}: the {level or 'single'} model gives scores with NaN or infinity")
    correct, n = int((logits.argmax(dim=1) == labels).sum()), len(labels)
    low, high = wilson(correct, n)
    return Row(
        **{"code": code_version(), "when": now(), "dtype": "float32", **about, **words},
        task=task.name,
        task_version=task.version,
        split="test",
        n=n,
        correct=correct,
        accuracy=correct / n,
        low=low,
        high=high,
        loss=float(torch.nn.functional.cross_entropy(logits.double(), labels)),
        level=level,
    )


def _level(level: Level | None) -> dict[str, Any]:
    """Where the experts of a collaboration met; a model of its own has no level."""
    ensembled = {"way": "ensemble"} if level == "ensembled" else {}
    return {"level": level, **ensembled} if level else {}


def _recipe(folder: Path | None) -> dict[str, Any]:
    """The recipe of a model that Smelt merged."""
    if folder is None or not (folder / MANIFEST).is_file():
        return {}
    try:
        manifest = read_json(folder / MANIFEST)
        used = manifest["recipe"].get("looked_at")
        budget = {"data_budget": DataBudget.model_validate(used)} if used else {}
        return {"recipe": dict(manifest["recipe"]), "recipe_hash": str(manifest["recipe_hash"]), **budget}
    except (CorruptFile, AttributeError, KeyError, TypeError, ValueError):
        return {}


def _name(label: str) -> str:
    from smelt.recipe.reference_name import ref_name

    return ref_name(label).removeprefix("zoo:") or label


def command_for(
    label: str,
    model: Classifier | CausalLM | ImageText | ServedModel,
    tasks: list[Task],
    split: str,
    limit: int | None,
    text_from: Any,
    allow_pickle: bool,
    corruptions: list[Corruption | None],
) -> str:
    """The command line that gives the same numbers; nothing where the model is one that no command line makes."""
    import shlex

    own = getattr(model, "eval_flags", ())
    if own is None:
        return ""
    named = task_folders()
    places = ",".join(task.name if _is_named(task, named) else task.reference for task in tasks)
    words = ["smelt", "eval", label, "--tasks", places, "--split", split]
    words += ["--limit", str(limit)] if limit is not None else []
    words += ["--text-from", str(text_from)] if isinstance(text_from, str | Path) else []
    if not isinstance(model, ServedModel):  # its server decides where and in what it computes
        words += ["--device", model.device] if model.device != "cpu" else []
        words += ["--dtype", model.dtype] if model.dtype != "float32" else []
    words += ["--allow-pickle"] if allow_pickle else []
    words += [FLAG] if is_trusted() else []
    for worse in corruptions if corruptions != [None] else []:
        words += ["--corruption", worse.name if worse else CLEAN]
    words += own
    return shlex.join(words)


def _is_named(task: Task, named: dict[str, Path]) -> bool:
    folder = named.get(task.name)
    return folder is not None and folder.resolve() == task.folder.resolve()
