"""The loop of a study: ask for a setting, send it off as a job, tell what came of it; phase after phase.

With several workers several settings are under way. Every finished trial is in the study and its rows are on disk
before the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from smelt.errors import SmeltError
from smelt.evaluation.row import Row
from smelt.jobs.executor import Executor
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.recipe.schema import Recipe
from smelt.runs.run_folder import RunFolder
from smelt.search.pruning import pruning_threshold
from smelt.search.space import Space, recipe_at
from smelt.search.study import Study, Trial

__all__ = ["JOBS", "StudyLoop"]

JOBS = "jobs"
"""The folder of results within that of the study."""
_HOPELESS = 3
"""Failures without one success after which a study ends: the fault is not the setting's."""


class StudyLoop:
    """One run of a study, phase after phase."""

    command = ""
    total = 0
    untried = 0

    def __init__(
        self,
        recipe: Recipe,
        spaces: list[Space],
        study: Study,
        folder: RunFolder,
        fixed: dict[str, Any],
        tasks: list[str],
        prune: bool,
        tell: Callable[[str], None],
    ):
        self.recipe, self.spaces, self.study, self.folder = recipe, spaces, study, folder
        self.fixed, self.tasks, self.prune, self.say = fixed, tasks, prune, tell
        self.entry = "+".join(call.name for call in recipe.merge)
        self.under_way: dict[str, tuple[int, int]] = {}
        self.failed: list[tuple[int, dict[str, Any]]] = []
        self.error: SmeltError | None = None

    def all(self, executor: str | Executor, workers: int) -> None:
        """Every phase at the best of those before."""
        for phase, space in enumerate(self.spaces):
            best = self.best(before=phase)
            jobs = self._jobs(space, phase, best.values if best else {})
            with closing(run_jobs(jobs, executor=executor, workers=workers, store=self.folder.path / JOBS)) as done:
                for one in done:
                    self._settle(one)
            self.untried += len(self.study.untried(space, phase))

    def best(self, *, before: int | None = None) -> Trial | None:
        """The trial with the highest accuracy; of equals that of the first phase, and there the first values.

        With `before`, of the phases before this one.
        """
        whole = [trial for trial in self.study.finished if trial.state == "complete"]
        whole = [trial for trial in whole if before is None or trial.phase < before]
        return min(whole, key=self._order, default=None)

    def _order(self, trial: Trial) -> tuple[Any, ...]:
        assert trial.accuracy is not None
        return (-trial.accuracy, trial.phase, self.spaces[trial.phase].rank(trial.values), trial.number)

    def _jobs(self, space: Space, phase: int, chosen: dict[str, Any]) -> Iterator[Job]:
        """A job whenever a worker is free, as long as there are settings to try."""
        while len(self.study.finished) + len(self.under_way) + len(self.failed) < self.total:
            left = self.study.untried(space, phase, [values for when, values in self.failed if when == phase])
            if space.is_grid and not left:
                return
            point = left[0] if self.study.sampler == "grid" else None
            number, values = self.study.ask(space, phase, chosen, point)
            recipe = recipe_at(self.recipe, values)
            about = {"entry": self.entry, "label": self.entry, "setting": values, "command": self.command}
            words = {"recipe": recipe.dump(), "recipe_hash": recipe.hash, "bar": self._bar(), "about": about}
            job = Job("smelt.search.trial:run_trial", {**self.fixed, **words}, name=f"trial {number}")
            self.under_way[job.name] = (number, phase)
            yield job

    def _bar(self) -> dict[str, Any] | None:
        scores = [[one.scores[task] for task in self.tasks if task in one.scores] for one in self.study.finished]
        bar = pruning_threshold(scores, len(self.tasks)) if self.prune else None
        return asdict(bar) if bar else None

    def _settle(self, done: Done) -> None:
        number, phase = self.under_way.pop(done.job.name)
        values = done.job.arguments["about"]["setting"]
        if done.error is not None:
            self.error = done.error
            self.failed.append((phase, values))
            self.study.fail(number, str(done.error))
            self._say(f"failed: {str(done.error).splitlines()[0]}", values)
            if len(self.failed) >= _HOPELESS and not self.study.finished:
                raise done.error
            return
        result = done.result
        rows = [Row.model_validate(row) for row in result["rows"]]
        self.folder.add([row for row in rows if not self.folder.has(row)])
        self.study.tell(
            number,
            {row.task: row.accuracy for row in rows},
            stopped=result["stopped"],
            merge_seconds=result["merge_seconds"],
            evaluate_seconds=result["evaluate_seconds"],
            recipe_hash=done.job.arguments["recipe_hash"],
        )
        mean = 100 * sum(result["scores"]) / len(result["scores"])
        told = f"stopped after {len(rows)} of {len(self.tasks)} tasks" if result["stopped"] else f"{mean:.2f} %"
        self._say(told, values, done.seconds)

    def _say(self, outcome: str, values: Mapping[str, Any], seconds: float | None = None) -> None:
        count = len(self.study.finished) + len(self.failed)
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        setting = ", ".join(f"{word} {value}" for word, value in values.items())
        self.say(f"[{count:2}/{self.total}] {setting}: {outcome}{took}")
