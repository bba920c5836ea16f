"""The public call: `smelt.tune(recipe)` -> the best setting. The command `smelt tune` is this function.

Checks everything that was asked for before the first trial; the trials themselves are `smelt.search.run_study`'s.
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.errors import RecipeError, SmeltError
from smelt.files.remote_code import FLAG, is_trusted, takes_trust
from smelt.jobs.executor import Executor
from smelt.recipe.read import read_recipe
from smelt.recipe.schema import Recipe
from smelt.recipe.tune import Spread
from smelt.runs.protocol import check_kind, check_split, content_of, seen_from
from smelt.runs.run_folder import RunFolder
from smelt.search.grids import shipped_phases
from smelt.search.run_study import JOBS, StudyLoop
from smelt.search.space import Space, read_space, recipe_at
from smelt.search.study import Study, Trial, check_sampler, write_trials
from smelt.search.trial import forget
from smelt.tasks.registry import Tasks, find_tasks

__all__ = ["TRIALS", "Tuned", "grid_size", "tune"]

TRIALS = 30
"""How many settings are tried where they cannot be counted and nothing is said."""
_BEST, _STUDY, _TABLE = "best.yaml", "study.db", "trials.csv"

_SHOWN = 10
"""Trials in the table that is shown; the file has all."""
_TOLD = 3
"""Settings that are as good as the best, of those that are named."""


@dataclass(frozen=True)
class Tuned(Shown):
    """What a study found."""

    best: Recipe
    """The recipe at the best values, as in `best.yaml`."""
    value: float
    """Its mean score over the tasks."""
    values: dict[str, Any]
    """The best values by `stage.parameter`."""
    trials: tuple[Trial, ...]
    """Everything that was tried, in order."""
    folder: Path
    split: str
    tasks: tuple[str, ...]
    seconds: float
    computed: int
    """Trials that this run added; the others were there."""
    untried: int
    """Points of the grid that are left."""

    @property
    def recipe_file(self) -> Path:
        """Where the best recipe lies."""
        return self.folder / _BEST

    @property
    def equals(self) -> list[dict[str, Any]]:
        """The other settings whose score is the best, too: nothing on this data decides between them."""
        whole = [trial for trial in self.trials if trial.state == "complete" and trial.values != self.values]
        same = [trial.values for trial in whole if math.isclose(trial.accuracy or 0.0, self.value, rel_tol=1e-12)]
        return [values for number, values in enumerate(same) if values not in same[:number]]

    def shown(self) -> list[Table | Lines]:
        whole = [trial for trial in self.trials if trial.state == "complete"]
        ranked = sorted(whole, key=lambda trial: (trial.values != self.values, -(trial.accuracy or 0), trial.number))
        stopped = sum(trial.state == "pruned" for trial in self.trials)
        words = list(dict.fromkeys(word for trial in ranked for word in trial.values))
        headings = ["trial", *words, "accuracy %", "merge s", "evaluate s"]
        title = f"mean accuracy on {self.split}, {len(self.tasks)} tasks"
        parts = [f"{len(whole)} whole trials", f"{stopped} stopped early"]
        parts += [f"{self.untried} points of the grid not tried"] if self.untried else []
        again = shlex.join(["smelt", "merge", str(self.recipe_file), "-o", "OUT"])
        said = [
            f"{', '.join(parts)}; {self.computed} computed now, in {self.seconds:.0f} s",
            f"best: {_setting(self.values)} with {100 * self.value:.2f} %. Next: {again}",
        ]
        if same := [_setting(values) for values in self.equals]:
            more = f" and {len(same) - _TOLD} more" if len(same) > _TOLD else ""
            many = "another setting scores" if len(same) == 1 else f"{len(same)} other settings score"
            said.insert(
                1, f"{many} the same: {'; '.join(same[:_TOLD])}{more}. The first value that is listed was taken"
            )
        return [Table(headings, [_cells(trial, words) for trial in ranked[:_SHOWN]], title, left=()), Lines(said)]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the best, and every trial."""
        return {
            "folder": str(self.folder),
            "best": self.best.dump(),
            "value": self.value,
            "values": self.values,
            "equals": self.equals,
            "split": self.split,
            "tasks": list(self.tasks),
            "trials": [trial.to_json() for trial in self.trials],
            "seconds": self.seconds,
            "computed": self.computed,
            "untried": self.untried,
        }


@takes_trust
def tune(
    recipe: Recipe | str | Path | Mapping[str, Any],
    *,
    trials: int | None = None,
    out: str | Path | None = None,
    tasks: Tasks = "clip8",
    split: str = "val",
    limit: int | None = None,
    sampler: str | None = None,
    prune: bool = True,
    seed: int = 0,
    workers: int = 1,
    executor: str | Executor | None = None,
    text_from: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Tuned:
    """Try settings of a recipe on validation data and find the best.

    What may vary is the `tune` of the `recipe`, or the shipped grid of its method. Every combination of lists is tried,
    or `trials` of them; of ranges so many settings as Optuna's TPE chooses (`sampler`: grid, tpe or random). The score
    is the mean over `tasks` (of pictures or of text, not both) on `split`, which is never `test`; of equals the first
    value of a list and the smallest of a range wins. With `prune`, trials that cannot become the best any more are
    stopped.

    The folder `out` (the recipe's name and `-tuned`) holds the study, the rows, `trials.csv` and `best.yaml`. A study
    that was stopped goes on where it was; a folder that was begun with something else is refused, `force` begins anew.
    Trials run in this process, or in `workers` of an `executor` (`smelt.jobs.executor.EXECUTORS`).
    """
    began = time.perf_counter()
    read, relative_to = read_recipe(recipe)
    if read.lora is not None:
        raise RecipeError("lora: a study evaluates whole models; leave `lora` out, and write it into the best recipe")
    if read.data is not None and read.data.split == "test":
        raise RecipeError(
            "data.split is test: what is learned there has seen the pictures that results are reported on, and so has "
            "every setting that is chosen by it; use train or val"
        )
    if trials is not None and trials < 1:
        raise RecipeError(f"trials: at least 1, got {trials}")
    chosen = find_tasks(tasks)
    check_split(split, chosen)
    phases: list[dict[str, Spread]] = read.tune or shipped_phases(read)
    spaces = read_space(read, phases)
    kind = check_sampler(sampler, spaces)
    plain, content = recipe_at(read, {}), content_of(read, relative_to, chosen)
    how = {"split": split, "limit": limit, "text_from": text_from, "device": device, "dtype": dtype}
    words = {"recipe": plain.hash[:16], "tune": _text(phases), **how, "sampler": kind, "seed": seed, "prune": prune}
    check_kind(read, relative_to, chosen)
    folders = [task.reference for task in chosen]
    folder = RunFolder(Path(out or _default_folder(recipe)), {**words, **content}, force=force)
    try:
        if force:
            _clear(folder.path)
        study = Study(folder.path / _STUDY, {**words, **content}, kind, seed)
        places = {"relative_to": str(relative_to) if relative_to else None, "content": content, "tasks": folders}
        names = [task.name for task in chosen]
        loop = StudyLoop(plain, spaces, study, folder, {**how, **places}, names, prune, tell)
        loop.command = _command(recipe, names, how)
        loop.total = trials or _size(spaces)
        before = len(study.finished)
        try:
            loop.all(executor or ("inline" if workers == 1 else "local"), workers)
        finally:
            study.close()
            write_trials(folder.path / _TABLE, study.trials, names)
            forget()
        best = loop.best()
        if best is None or best.accuracy is None:
            raise loop.error or SmeltError(f"{folder.path}: no trial came to an end; see {_TABLE}")
        found = seen_from(recipe_at(plain, best.values), relative_to, folder.path)
        found.save(folder.path / _BEST)
        return Tuned(
            best=found,
            value=best.accuracy,
            values=best.values,
            trials=tuple(study.trials),
            folder=folder.path,
            split=split,
            tasks=tuple(names),
            seconds=time.perf_counter() - began,
            computed=len(study.finished) - before,
            untried=loop.untried,
        )
    finally:
        folder.close()


def grid_size(recipe: Recipe) -> int:
    """How many settings a study of a recipe tries, of its own `tune` or the shipped grid."""
    return _size(read_space(recipe, recipe.tune or shipped_phases(recipe)))


def _size(spaces: Sequence[Space]) -> int:
    """All points of a grid; where there are ranges, the usual number."""
    return sum(len(space.points()) for space in spaces) if all(space.is_grid for space in spaces) else TRIALS


def _text(phases: Sequence[Mapping[str, Spread]]) -> str:
    return json.dumps([{word: spread.dump() for word, spread in phase.items()} for phase in phases])


def _default_folder(recipe: Any) -> str:
    return f"{Path(recipe).stem if isinstance(recipe, str | Path) else 'recipe'}-tuned"


def _command(recipe: Any, tasks: list[str], how: Mapping[str, Any]) -> str:
    file = str(recipe) if isinstance(recipe, str | Path) else "RECIPE.yaml"
    usual = {"limit": None, "device": "cpu", "dtype": "float32"}
    flags = [word for name, value in usual.items() if how[name] != value for word in (f"--{name}", str(how[name]))]
    flags += [FLAG] if is_trusted() else []
    return shlex.join(["smelt", "tune", file, "--tasks", ",".join(tasks), "--split", how["split"], *flags])


def _clear(folder: Path) -> None:
    """Take away what an earlier study left."""
    for name in (_STUDY, _TABLE, _BEST):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / JOBS, ignore_errors=True)


def _setting(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{word} {value}" for word, value in values.items())


def _cells(trial: Trial, words: Sequence[str]) -> list[str]:
    values = [str(trial.values.get(word, "")) for word in words]
    score = f"{100 * (trial.accuracy or 0):.2f}"
    return [str(trial.number), *values, score, f"{trial.merge_seconds:.2f}", f"{trial.evaluate_seconds:.2f}"]
