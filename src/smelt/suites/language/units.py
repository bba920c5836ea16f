"""The units of a language suite: pure pieces of work, plain data in, rows and faults out.

A unit is one model from its making to its last row. What it computed on the way lies where it is found again: looks at
data in the cache, trials in the entry's study.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.evaluation.row import Row, read_rows
from smelt.prepare.prepare import PreparedRecipe, measurements, prepare
from smelt.recipe.schema import DataBudget, Recipe
from smelt.runs.run_folder import ROWS
from smelt.search.space import recipe_at
from smelt.search.tune import tune
from smelt.suites.language.questions import Questions
from smelt.suites.merge_process import merge_in_process, peak_of_process
from smelt.suites.units import UnitResult, cost_row, recipe_words, unit_result
from smelt.tasks.language.judge import forget_judge

__all__ = ["made", "prepare_with_peak", "reference"]


def reference(*, ref: str, ask: Mapping[str, Any], about: Mapping[str, Any]) -> UnitResult:
    """A model as it is."""
    answers = Questions(**ask).put_to(ref, about)
    return unit_result(answers.rows, failures=answers.failures)


def made(
    *,
    name: str,
    recipe: Mapping[str, Any],
    validation: Mapping[str, Any] | None,
    at_once: int,
    folder: str,
    keep: bool,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> UnitResult:
    """All specialists merged by a recipe: data looked at, settings tried if there is `validation`, merged, asked.

    `validation` says on what {tasks, limit} a setting is chosen, `at_once` how many are tried at once. `folder` is
    that of the suite: recipes and studies are left there, and the model too if it is to be kept.
    """
    root, questions, wanted = Path(folder), Questions(**ask), Recipe.parse(recipe)
    where: dict[str, Any] = {"device": questions.device, "threads": questions.threads}
    first = 0
    if measurements(wanted):  # once for all trials, so that none of them is charged with it
        first = prepare_with_peak(wanted.model_copy(update={"tune": None}), **where)[1]
    tuned = _tuned(name, wanted, validation, at_once, root, questions, about) if validation else _Tuned(wanted)
    prepared, peak = prepare_with_peak(tuned.recipe, **where)
    assert prepared.recipe is not None
    path, out = root / "recipes" / f"{name}.yaml", root / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    tuned.recipe.save(path)
    if prepared.recipe != tuned.recipe:
        out.parent.mkdir(parents=True, exist_ok=True)
        path = root / "models" / f"{name}.prepared.yaml"
        prepared.recipe.save(path)
    try:
        merged = merge_in_process(path, out, threads=questions.threads)
        words = {**recipe_words(tuned.recipe), "data_budget": tuned.budget or prepared.budget, **about}
        made_by = _merging(name, prepared.device)
        answers = questions.put_to(str(out), words, called=name, first=made_by)
        answers.rows = [row.model_copy(update={"model": "merged"}) for row in answers.rows]
    finally:
        if not keep:
            shutil.rmtree(out, ignore_errors=True)
            (root / "models" / f"{name}.prepared.yaml").unlink(missing_ok=True)
    cost = [
        cost_row(
            row,
            device=questions.device,
            threads=questions.threads,
            evaluate_seconds=answers.seconds,
            prepare_seconds=prepared.seconds,
            prepare_device=prepared.device,
            merge_seconds=merged.seconds,
            validate_seconds=tuned.seconds,
            trials=tuned.trials,
            prepare_peak_bytes=max(first, peak) or prepared.peak_bytes,
            peak_bytes=merged.peak_bytes,
        )
        for row in answers.rows[:1]
    ]
    return unit_result([*tuned.rows, *answers.rows, *cost], failures=answers.failures)


def _merging(name: str, device: str) -> list[str]:
    """The command that merges an entry again; `device` is where data is looked at, and merging runs on the CPU."""
    where = ["--data-device", device] if device != "cpu" else []
    return ["smelt", "merge", f"recipes/{name}.yaml", "-o", name, *where]


@dataclass(frozen=True)
class _Tuned:
    """A recipe at the setting that was chosen, and what choosing it took."""

    recipe: Recipe
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    trials: int = 0
    budget: DataBudget | None = None
    """What it looked at and what its setting was chosen by."""


def _tuned(
    name: str,
    recipe: Recipe,
    validation: Mapping[str, Any],
    at_once: int,
    root: Path,
    ask: Questions,
    about: Mapping[str, Any],
) -> _Tuned:
    file = root / "recipes" / f"{name}-tune.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    recipe.save(file)
    tasks, limit = list(validation["tasks"]), validation["limit"]
    where: dict[str, Any] = {"out": root / "tuning" / name, "device": ask.device, "dtype": ask.dtype}
    found = tune(recipe, tasks=tasks, split="val", limit=limit, workers=at_once, **where)
    chosen = recipe_at(recipe, found.values)
    flags = ["--tasks", ",".join(tasks), *(["--limit", str(limit)] if limit is not None else []), *ask.flags()]
    command = shlex.join(["smelt", "tune", f"recipes/{name}-tune.yaml", *flags])
    same = {word: about[word] for word in ("suite", "entry", "label")}
    rows = [
        row.model_copy(update={**same, "command": command})
        for row in read_rows(found.folder / ROWS)
        if isinstance(row, Row)
    ]
    ended = [trial for trial in found.trials if trial.state in ("complete", "pruned")]
    return _Tuned(
        chosen,
        rows,
        seconds=sum(trial.merge_seconds + trial.evaluate_seconds for trial in ended),
        trials=len(ended),
        budget=next((row.data_budget for row in rows if row.recipe_hash == chosen.hash), None),
    )


def prepare_with_peak(recipe: Recipe, *, device: str, threads: int | None) -> tuple[PreparedRecipe, int]:
    """What is left to merge, and the peak in bytes, of the device or of this process.

    The peak is 0 where there was nothing to look at, or it was done before. A worker that did other things first has
    had its own peak, which is forgotten before (Linux alone can do that).
    """
    forget_judge()
    _forget_peak(device)
    prepared = prepare(recipe, device=device, threads=threads)
    return prepared, _peak(device) if prepared.seconds > 0 and not prepared.cached else 0


def _forget_peak(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak(device: str) -> int:
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return peak_of_process() or 0
