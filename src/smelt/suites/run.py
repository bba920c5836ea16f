"""`smelt.bench`: a suite in, its rows, analyses and report out. One run for every kind of suite.

Every finished step's rows are on disk at once, and a step that is done is not computed again, so that a run that was
stopped goes on where it was. Steps are pure jobs that any executor can compute. One that fails costs its own rows; the
others go on, and what went wrong is told when everything else is on disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from smelt.display.blocks import Code, Lines
from smelt.display.shown import Shown
from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluation.row import CostRow, Row
from smelt.files.remote_code import takes_trust
from smelt.jobs.failure import unpack_error
from smelt.jobs.run import run_jobs
from smelt.runs.run_folder import RunFolder
from smelt.suites.find import find_suite, kind_of
from smelt.suites.needs.downloads import repositories
from smelt.suites.needs.needs import SuiteNeeds, check_needs, suite_needs
from smelt.suites.order import ORDER, published_orders
from smelt.suites.plan import BenchOptions, BenchWords, Step, SuitePlan, chosen
from smelt.suites.published import PUBLISHED, published_tables
from smelt.suites.report import report
from smelt.suites.state import RunState

if TYPE_CHECKING:
    from smelt.jobs.run import Done
    from smelt.suites.suite import BaseSuite

__all__ = ["BenchResult", "bench", "bench_needs", "run_rounds"]


@dataclass(frozen=True)
class BenchResult(Shown):
    """What a run left behind."""

    folder: Path
    report: Path
    rows: list[Row | CostRow]
    seconds: float
    computed: int
    """Accuracy rows that this run added; the others were there."""

    def shown(self) -> list[Code | Lines]:
        from smelt.suites.report import table_text

        done = f"{self.computed} numbers computed in {self.seconds:.0f} s; the report: {self.report}"
        return [Code(table_text(self.folder, self.rows)), Lines([done])]


@takes_trust
def bench(
    suite: str | Path | BaseSuite = "clip8",
    *,
    out: str | Path | None = None,
    methods: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    force: bool = False,
    trust_remote_code: bool = False,
    **words: Unpack[BenchWords],
) -> BenchResult:
    """Run a suite: rows, analyses and a report in the folder `out` (the suite's name and family if nothing is given).

    `suite` is a name or a YAML file. `methods` and `tasks` are its own names of what to run; by default everything.
    Other words are those of BenchOptions: `limit`, `curve_limit`, `preset`, `family`, `tune`, `device`, `dtype`,
    `threads`, `keep_models`, `executor`, `workers`, `tell`. A folder with some of the rows is completed; `force` begins
    anew. A suite of models of the Hub is refused at once where it cannot fit; `bench_needs` says what it takes.
    """
    from smelt.models.families.model_input import check_device

    began = time.perf_counter()
    known, options = _asked_for(suite, methods, tasks, words)
    kind = kind_of(known)
    check_device(options.device, options.dtype)
    printed = {PUBLISHED: published_tables(known, kind), ORDER: published_orders(known, kind)}
    if any(repositories(ref) for ref in known.inputs(options).models.values()):
        needs = suite_needs(known, options)
        options.tell(needs.summary)
        check_needs(needs)
    plan = kind.plan(known, options)
    protocol = {"suite": f"{known.run_name}@{known.version}", **plan.protocol}
    try:
        notes = {"kind": kind.name, **({"family": known.family} if known.family else {})}
        folder = RunFolder(Path(out or known.run_name), protocol, notes, force=force)
        before = len(folder.rows)
        try:
            state = RunState(folder)
            for name, tables in printed.items():
                if tables is not None:
                    state.write_analysis(name, tables)
            run_rounds(plan, state, options)
            if not folder.rows:
                state.complain()
            page = report(folder.path)
            state.complain()
        finally:
            folder.close()
    finally:
        plan.close()
    computed = sum(isinstance(row, Row) for row in folder.rows[before:])
    return BenchResult(folder.path, page, folder.rows, time.perf_counter() - began, computed)


def bench_needs(
    suite: str | Path | BaseSuite = "clip8",
    *,
    methods: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    **words: Unpack[BenchWords],
) -> SuiteNeeds:
    """What `bench` with the same words would fetch and need: disk, memory, a GPU, about how long. Nothing is fetched.

    `suite`, `methods`, `tasks` and the other words are those of `bench`.
    """
    known, options = _asked_for(suite, methods, tasks, words)
    every = known.inputs(BenchOptions())
    chosen("method", methods, every.methods or methods or ())
    chosen("task", tasks, every.tasks or tasks or ())
    return suite_needs(known, options)


def _asked_for(
    suite: str | Path | BaseSuite, methods: Sequence[str] | None, tasks: Sequence[str] | None, words: BenchWords
) -> tuple[BaseSuite, BenchOptions]:
    """The suite of the family and at the preset that is asked for, and all that is asked of it."""
    strange = sorted(words.keys() - BenchOptions.__dataclass_fields__.keys())
    if strange:
        raise RecipeError(unknown("word of a suite", strange[0], list(BenchOptions.__dataclass_fields__)))
    options = BenchOptions(**words, methods=methods, tasks=tasks)
    known: BaseSuite = find_suite(suite, options.family) if isinstance(suite, str | Path) else suite
    return known.with_preset(options.preset), options


def run_rounds(plan: SuitePlan, state: RunState, options: BenchOptions) -> None:
    """One round of a plan after another; what fails is left in the state."""
    progress = _Progress(plan, options)
    for steps in plan.rounds(state):
        steps = list(steps)
        progress.begin(len(steps))
        for step, done in _settled(steps, state, options):
            if done is not None and done.error is not None:
                state.failures[step.label] = done.error
                progress.failed(step, done.error)
                continue
            if done is not None:
                _settle(plan, state, step, done, progress)
            progress.done(step, state.fitting(step.expected), None if done is None else done.seconds)
    if state.folder.rows:  # of earlier runs, perhaps
        plan.describe(state)


def _settled(steps: Sequence[Step], state: RunState, options: BenchOptions) -> Iterator[tuple[Step, Done | None]]:
    """Every step with its finished job; with none where all that it leaves was there before."""
    waiting: dict[str, Step] = {}
    for step in steps:
        if step.job is None or state.is_done(step):
            yield step, None
        else:
            waiting[step.job.key] = step
    jobs = [step.job for step in waiting.values() if step.job is not None]
    for done in run_jobs(jobs, executor=options.executor, workers=options.workers):
        yield waiting[done.job.key], done


def _settle(plan: SuitePlan, state: RunState, step: Step, done: Done, progress: _Progress) -> None:
    """Write down what a unit returned."""
    for name, content in done.result["analyses"].items():
        state.write_analysis(name, content, plan.indent)
    state.add(done.result["rows"])
    plan.describe(state)  # so that a run that was stopped has a report too
    for task, packed in done.result["failures"].items():
        error = unpack_error(packed)
        state.failures[f"{step.label}, {task}"] = error
        progress.failed_task(step, task, error)


class _Progress:
    """Tells of each step with its number."""

    def __init__(self, plan: SuitePlan, options: BenchOptions):
        self._plan, self._tell = plan, options.tell
        self._number, self._round = 0, 0

    def begin(self, steps: int) -> None:
        """A round of so many steps."""
        self._round = steps
        if self._plan.total is None:
            self._number = 0

    def done(self, step: Step, rows: Sequence[Row], seconds: float | None) -> None:
        if step.counted:
            said = self._plan.summary(step, rows)
            how = f"{seconds:.1f} s" if seconds is not None else "there already"
            self._line(step, f"{step.label}{': ' if said else ''}{said} ({how})")

    def failed(self, step: Step, error: SmeltError) -> None:
        self._line(step, f"{step.label}: FAILED, {_first_line(error)}")

    def failed_task(self, step: Step, task: str, error: SmeltError) -> None:
        self._tell(f"        {step.label}, {task}: FAILED, {_first_line(error)}")

    def _line(self, step: Step, text: str) -> None:
        if not step.counted:
            self._tell(text)
            return
        self._number += 1
        total = self._plan.total
        place = f"[{self._number:3}/{self._round}]" if total is None else f"[{self._number:2}/{total}]"
        self._tell(f"{place} {text}")


def _first_line(error: SmeltError) -> str:
    return str(error).splitlines()[0]
