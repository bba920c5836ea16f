"""The loop of a collaboration suite: step after step, every step's rows on disk at once, then the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from smelt.bench.collaboration.steps import Step, steps_of
from smelt.bench.collaboration.suite import CollaborationSuite
from smelt.bench.fingerprint import model_fingerprints, task_fingerprint
from smelt.bench.folder import Folder
from smelt.bench.options import Finished, Options
from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluate.find import find_tasks
from smelt.evaluate.row import Row
from smelt.jobs import run_jobs

__all__ = ["collaborate"]


def collaborate(
    suite: CollaborationSuite, out: Path, methods: Sequence[str] | None, options: Options, *, force: bool
) -> Finished:
    """Run a collaboration suite into a folder; one with some of the rows is completed."""
    began = time.perf_counter()
    for name in methods or ():
        if name not in suite.entries:
            raise RecipeError(unknown("method of the suite", name, suite.entries))
    if options.dtype != "float32":
        raise RecipeError(f"dtype: {suite.name} compares models to the last digit and computes in float32")
    run = _Run(suite, out, list(methods or suite.entries), options, force)
    try:
        before = len(run.folder.rows)
        run.everything()
        from smelt.report.write import report

        page = report(run.folder.path)
        run.complain()
    finally:
        run.folder.close()
    computed = sum(isinstance(row, Row) for row in run.folder.rows[before:])
    return Finished(run.folder.path, page, run.folder.rows, time.perf_counter() - began, computed)


class _Run:
    def __init__(self, suite: CollaborationSuite, out: Path, methods: list[str], options: Options, force: bool):
        self.options = options
        words = {
            "suite": f"{suite.name}@{suite.version}",
            "limit": options.limit or suite.limit,
            "fit": suite.fit.model_dump(),
            "models": {
                f"{pool}: {name}": found
                for pool, models in suite.pools.items()
                for name, found in model_fingerprints(models).items()
            },
            "tasks": {task.name: task_fingerprint(task) for task in find_tasks(suite.tasks)},
        }
        self.folder = Folder(out, words, force=force)
        self.steps = list(steps_of(suite, methods, options, str(out)))
        self.failures: dict[str, SmeltError] = {}
        self.done = 0

    def everything(self) -> None:
        waiting: dict[str, Step] = {}
        for step in self.steps:
            there = sum(step.owns(row) for row in self.folder.rows if isinstance(row, Row))
            if there >= step.rows:
                self._told(step, None)
            else:
                waiting[step.job.key] = step
        jobs = [step.job for step in waiting.values()]
        for done in run_jobs(jobs, executor=self.options.executor, workers=self.options.workers):
            step = waiting[done.job.key]
            if done.error is not None:
                self.done += 1
                self.failures[step.label] = done.error
                said = f"FAILED, {str(done.error).splitlines()[0]}"
                self.options.tell(f"[{self.done:2}/{len(self.steps)}] {step.label}: {said}")
                continue
            self.folder.add([Row.model_validate(one) for one in done.result])
            self._told(step, done.seconds)

    def complain(self) -> None:
        """Raise what went wrong, after everything else is done and on disk."""
        if self.failures:
            lines = [f"{label}: {error}" for label, error in self.failures.items()]
            raise SmeltError(f"{len(lines)} steps failed; the others are done:" + "".join(f"\n  - {o}" for o in lines))

    def _told(self, step: Step, spent: float | None) -> None:
        self.done += 1
        how = f"{spent:.1f} s" if spent is not None else "there already"
        rows = [row for row in self.folder.rows if isinstance(row, Row) and step.owns(row)]
        said = []
        for word, level in (("Mer.", "merged"), ("Ens.", "ensembled")):
            own = [row.accuracy for row in rows if row.level == level and row.entry == step.entries[0]]
            if own and step.variant == "published":
                said.append(f"{word} {100 * sum(own) / len(own):.1f} %")
        self.options.tell(
            f"[{self.done:2}/{len(self.steps)}] {step.label}{': ' if said else ''}{', '.join(said)} ({how})"
        )
