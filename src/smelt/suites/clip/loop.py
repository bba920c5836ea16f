"""The loop: references, every entry at its published setting, scale curves, tuned merges, paths, analyses, report.

Every finished unit's rows are on disk at once, and a cell that is there is not computed again, so a run that was
stopped goes on where it was. Units are pure jobs that any executor can run. Scales are chosen on `val`; `test` is only
ever reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluation.fingerprint import model_fingerprints
from smelt.evaluation.row import CostRow, Row
from smelt.evaluation.run_folder import RunFolder
from smelt.files.remote_code import takes_trust
from smelt.jobs import run_jobs
from smelt.recipe.schema import Recipe
from smelt.suites.clip.steps import Step, Steps
from smelt.suites.clip.suite import Suite
from smelt.suites.failures import complain
from smelt.suites.find import find_suite, kind_of
from smelt.suites.frame import refuse_presets
from smelt.suites.options import Finished, Options
from smelt.tasks.registry import picture_tasks

__all__ = ["Finished", "Options", "bench", "bench_pictures"]


@takes_trust
def bench(
    suite: str | Path | Any = "clip8",
    *,
    out: str | Path | None = None,
    methods: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    force: bool = False,
    trust_remote_code: bool = False,
    **words: Any,
) -> Finished:
    """Run a suite: rows, analyses and a report in the folder `out` (the suite's name if nothing is given).

    `methods` and `tasks` are the suite's own names of what to run; by default everything. Other words are those of
    Options: `limit`, `curve_limit`, `preset`, `tune`, `device`, `dtype`, `threads`, `keep_models`, `executor`,
    `workers`, `tell`. A folder with some of the rows is completed; `force` begins anew.
    """
    suite = find_suite(suite) if isinstance(suite, str | Path) else suite
    strange = sorted(words.keys() - Options.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a suite", strange[0], [*Options.__dataclass_fields__, "methods", "tasks"]))
    done: Finished = kind_of(suite).plan(suite, Path(out or suite.name), methods, tasks, Options(**words), force=force)
    return done


def bench_pictures(
    suite: Suite,
    out: Path,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    options: Options,
    *,
    force: bool,
) -> Finished:
    """Run a suite of picture models into a folder; one with some of the rows is completed."""
    began = time.perf_counter()
    refuse_presets(suite, options)
    run = _Run(suite, out, methods, tasks, options, force)
    before = len(run.folder.rows)
    try:
        run.everything()
        report = run.finish()
        complain(run.failures)
    finally:
        run.folder.close()
    computed = sum(isinstance(row, Row) for row in run.folder.rows[before:])
    return Finished(run.folder.path, report, run.folder.rows, time.perf_counter() - began, computed)


class _Run:
    """One run of a suite: its choices checked, its folder open."""

    def __init__(
        self,
        suite: Suite,
        out: Path,
        methods: Sequence[str] | None,
        tasks: Sequence[str] | None,
        options: Options,
        force: bool,
    ):
        self.suite, self.options = suite, options
        entries = _chosen("method", methods, suite.entries)
        known = {task.name: task for task in picture_tasks(suite.tasks)}
        spelt = {word: one[0] for word in suite.tasks if len(one := picture_tasks([word])) == 1}
        wanted = _chosen("task", tasks, {**known, **spelt}).values()
        chosen = {name: task for name, task in known.items() if any(task.folder == one.folder for one in wanted)}
        for name, entry in entries.items():
            if entry.merge is not None:
                _check_stages(name, suite.recipe(entry, task=suite.tasks[0]))
        words = {
            "suite": f"{suite.name}@{suite.version}",
            "limit": options.limit,
            "curve_limit": options.curve_limit or suite.curve_limit,
            "dtype": options.dtype,
            "models": model_fingerprints(suite.pool, allow_pickle=suite.allow_pickle),
            "tasks": {name: task.fingerprint() for name, task in known.items()},
        }
        self.folder = RunFolder(out, words, force=force)
        self.steps = Steps(suite, entries, list(chosen.values()), options, self.folder)
        self.failures: dict[str, SmeltError] = {}
        self.done = 0
        self.total = self._count()

    def everything(self) -> None:
        """Round after round: what a later one needs stands in the folder when it begins."""
        if self.options.workers > 1:  # side by side; alone, an entry measures what it needs when its turn comes
            for _ in run_jobs(self.steps.measurements(), executor=self.options.executor, workers=self.options.workers):
                pass  # what fails here fails again in its entry, which says so
        for steps in (self.steps.first, self.steps.curves, self.steps.tuned):
            self._round(steps())

    def finish(self) -> Path:
        """The analyses that need no pictures, and the report."""
        from smelt.analyse.write import write_analyses
        from smelt.suites.report import report

        pickles = self.suite.allow_pickle
        write_analyses(self.suite.pool, self.folder.path, self.suite.include or None, allow_pickle=pickles)
        return report(self.folder.path)

    def _count(self) -> int:
        entries = len(self.steps.entries) * len(self.steps.parts)
        references = len(self.suite.pool.models) + (self.suite.pool.base is not None)
        later = 2 * len(self.steps.tunable) + len(self.suite.paths) if self.options.tune else 0
        return references + entries + later

    def _round(self, steps: Iterable[Step]) -> None:
        waiting: dict[str, Step] = {}
        for step in steps:
            if step.job is None:
                self._told(step, None)
            else:
                waiting[step.job.key] = step
        jobs = [step.job for step in waiting.values() if step.job is not None]
        executor, workers = self.options.executor, self.options.workers
        for done in run_jobs(jobs, executor=executor, workers=workers):
            if done.error is not None:
                self._failed(waiting[done.job.key], done.error)
                continue
            self.folder.add([self._row(one) for one in done.result if not self._there(one)])
            self._told(waiting[done.job.key], done.seconds)

    def _row(self, content: dict[str, Any]) -> Row | CostRow:
        if content["kind"] == "cost":
            return CostRow.model_validate(content)
        part = content["part"]
        seen = content["task"] in self.suite.models(part) if part is not None else None
        return Row.model_validate({**content, "seen": seen})

    def _there(self, row: dict[str, Any]) -> bool:
        """Points of a line come all together, those that were there among them."""
        if row["variant"] != "path":
            return False
        return self.folder.has(row["entry"], "path", row["task"], None, **row["setting"])

    def _failed(self, step: Step, error: SmeltError) -> None:
        """What went wrong costs its own line; the others go on."""
        self.done += 1
        self.failures[step.label] = error
        self.options.tell(f"[{self.done:2}/{self.total}] {step.label}: FAILED, {str(error).splitlines()[0]}")

    def _told(self, step: Step, spent: float | None) -> None:
        self.done += 1
        how = f"{spent:.1f} s" if spent is not None else "there already"
        if step.variant in ("path", "curve"):
            self.options.tell(f"[{self.done:2}/{self.total}] {step.label} ({how})")
            return
        scores = [row.accuracy for row in self._shown(step)]
        mean = f"{100 * sum(scores) / len(scores):5.1f} %" if scores else "-"
        self.options.tell(f"[{self.done:2}/{self.total}] {step.label}: {mean} ({how})")

    def _shown(self, step: Step) -> list[Row]:
        """The rows of a step's clean pictures on the chosen tasks."""
        rows = (row for row in self.folder.rows if isinstance(row, Row))
        return [
            row
            for row in rows
            if (row.entry, row.variant, row.part) == (step.entry, step.variant, step.part)
            and (step.recipe_hash is None or row.recipe_hash == step.recipe_hash)
            and row.corruption is None
            and row.task in self.steps.tasks
        ]


def _chosen(what: str, names: Sequence[str] | None, known: dict[str, Any]) -> dict[str, Any]:
    """The named part of a table in the table's own order; an unknown name is refused."""
    if names is None:
        return dict(known)
    for name in names:
        if name not in known:
            raise RecipeError(unknown(f"{what} of the suite", name, known))
    return {name: known[name] for name in known if name in names}


def _check_stages(name: str, recipe: Recipe) -> None:
    """That every stage of a merge exists and takes its parameters, before anything is computed."""
    from smelt.prepare.prepare import check_recipe

    try:
        check_recipe(recipe)
    except SmeltError as error:
        raise RecipeError(f"{name}: {error}") from None
