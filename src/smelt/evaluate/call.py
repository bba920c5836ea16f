"""The public call: `smelt.evaluate(model, tasks)` -> rows. The command `smelt eval` is this function."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.folder import read_json
from smelt.engine.manifest import MANIFEST
from smelt.errors import CorruptFile, RecipeError, unknown
from smelt.evaluate.classify import Result, evaluate_model, load_classifier
from smelt.evaluate.corruptions import CLEAN, Corruption, Corruptions, SetName, read_corruptions
from smelt.evaluate.find import Tasks, find_tasks, task_folders
from smelt.evaluate.pictures import Data
from smelt.evaluate.row import DataBudget, Row, append_rows, code_version, now

if TYPE_CHECKING:
    from smelt.evaluate.task import Task
    from smelt.pool.families.family import Classifier

__all__ = ["Evaluation", "evaluate", "evaluation", "row_of"]

_WORDS = "split limit text_from batch device dtype threads quiet data out allow_pickle corruption corrupted_by".split()


@dataclass(frozen=True)
class Evaluation:
    """The rows of one model (a row per corruption and task), and the results behind them with their confusions."""

    rows: list[Row]
    results: list[Result]
    seconds: float

    @property
    def accuracy(self) -> float:
        """The mean over tasks."""
        return sum(row.accuracy for row in self.rows) / len(self.rows)

    @property
    def loss(self) -> float:
        """The mean over tasks."""
        return sum(row.loss for row in self.rows) / len(self.rows)


def evaluate(model: Any, tasks: Tasks = "clip8", *, out: str | Path | None = None, **words: Any) -> list[Row]:
    """Evaluate one model, without merging: one row per task, appended to the file `out` if it is given.

    `model` is a reference (a path, `zoo:name`, `hf:org/name`), a module or a state dict; a state dict and a model that
    is a picture tower alone need `text_from`, the CLIP model with the rest. Other words: `split` ("test"), `limit` (a
    fixed, representative part of each split, the same for every model), `batch` (256), `device` ("cpu"), `dtype`
    ("float32"), `threads`, `quiet`, `data` (pictures shared by several calls), `allow_pickle` (False: references to
    `.bin` and `.pt` files are refused), `corruption` (`"motion_blur@3"`, done to the stored pictures; of several, with
    `"clean"` for none, each gives its own rows), `corrupted_by` (the numbers that a severity stands for: "cifar_c", or
    "imagenet_c"), and those of the row (`suite`, `entry`).
    """
    rows = evaluation(model, tasks, **words).rows
    if out is not None:
        append_rows(out, rows)
    return rows


def evaluation(
    model: Any,
    tasks: Tasks = "clip8",
    *,
    split: str = "test",
    limit: int | None = None,
    text_from: Any = None,
    batch: int = 256,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    quiet: bool = True,
    data: Data | None = None,
    allow_pickle: bool = False,
    corruption: Corruptions = None,
    corrupted_by: SetName = "cifar_c",
    **about: Any,
) -> Evaluation:
    """What `evaluate` does, with the confusion matrices and the time it took."""
    began = time.perf_counter()
    strange = sorted(about.keys() - Row.model_fields.keys())
    if strange:
        raise RecipeError(unknown("word of an evaluation", strange[0], [*_WORDS, *Row.model_fields]))
    chosen, corruptions = find_tasks(tasks), read_corruptions(corruption, corrupted_by)
    classifier = load_classifier(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
    words: dict[str, Any] = {"split": split, "limit": limit, "batch": batch, "threads": threads, "quiet": quiet}
    data = data or Data()
    results = [
        result
        for worse in corruptions
        for result in evaluate_model(classifier, chosen, data=data, corruption=worse, **words)
    ]
    command = _command(classifier, chosen, split, limit, text_from, allow_pickle, corruptions)
    rows = [row_of(result, classifier, **{"command": command, **about}) for result in results]
    return Evaluation(rows, results, time.perf_counter() - began)


def row_of(result: Result, model: Classifier, **about: Any) -> Row:
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
    }
    return Row(
        **{**known, **about},
        task=result.task,
        task_version=result.task_version,
        split=result.split,
        n=result.n,
        correct=result.correct,
        accuracy=result.accuracy,
        low=low,
        high=high,
        loss=result.loss,
        corruption=result.corruption,
    )


def _recipe(folder: Path | None) -> dict[str, Any]:
    """The recipe of a model that Smelt merged."""
    if folder is None or not (folder / MANIFEST).is_file():
        return {}
    try:
        manifest = read_json(folder / MANIFEST)
        used = manifest["recipe"].get("looked_at")
        budget = {"data_budget": DataBudget.model_validate(used)} if used else {}
        return {"recipe": dict(manifest["recipe"]), "recipe_hash": str(manifest["recipe_hash"]), **budget}
    except (CorruptFile, KeyError, TypeError, ValueError):
        return {}


def _name(label: str) -> str:
    from smelt.pool.refs import ref_name

    return ref_name(label).removeprefix("zoo:") or label


def _command(
    model: Classifier,
    tasks: list[Task],
    split: str,
    limit: int | None,
    text_from: Any,
    allow_pickle: bool,
    corruptions: list[Corruption | None],
) -> str:
    """The command line that gives the same numbers, where the model has a reference."""
    import shlex

    named = task_folders()
    places = ",".join(task.name if named.get(task.name) == task.folder else str(task.folder) for task in tasks)
    words = ["smelt", "eval", model.label, "--tasks", places, "--split", split]
    words += ["--limit", str(limit)] if limit is not None else []
    words += ["--text-from", str(text_from)] if isinstance(text_from, str | Path) else []
    words += ["--device", model.device] if model.device != "cpu" else []
    words += ["--dtype", model.dtype] if model.dtype != "float32" else []
    words += ["--allow-pickle"] if allow_pickle else []
    for worse in corruptions if corruptions != [None] else []:
        words += ["--corruption", worse.name if worse else CLEAN]
    return shlex.join(words)
