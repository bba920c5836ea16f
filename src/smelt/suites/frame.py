"""The frame of a suite's run: before it what was named; after it the report, what went wrong and what was added."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluation.row import Row
from smelt.evaluation.run_folder import RunFolder
from smelt.suites.failures import complain
from smelt.suites.options import Finished, Options

__all__ = ["Run", "named", "refuse_presets", "run_through"]


class Run(Protocol):
    """Steps over an open folder."""

    @property
    def folder(self) -> RunFolder: ...
    @property
    def failures(self) -> Mapping[str, SmeltError]: ...
    def everything(self) -> None: ...


def named(what: str, names: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The named ones in the suite's own order, or all; an unknown name is refused."""
    known = list(known)
    for name in names or ():
        if name not in known:
            raise RecipeError(unknown(f"{what} of the suite", name, known))
    return [name for name in known if names is None or name in names]


def run_through(run: Run, began: float) -> Finished:
    """Everything of a run that began then, and its report; failed steps are told at the end, and the folder closed."""
    from smelt.suites.report import report

    before = len(run.folder.rows)
    try:
        run.everything()
        if not run.folder.rows:
            complain(run.failures)
        page = report(run.folder.path)
        complain(run.failures)
    finally:
        run.folder.close()
    computed = sum(isinstance(row, Row) for row in run.folder.rows[before:])
    return Finished(run.folder.path, page, run.folder.rows, time.perf_counter() - began, computed)


def refuse_presets(suite: Any, options: Options) -> None:
    """Of a kind that has neither presets nor trials inside its units."""
    if options.preset is not None:
        raise RecipeError(f"preset: {suite.name} has none; leave it out")
    if options.trial_workers != 1:
        raise RecipeError(f"trial_workers: {suite.name} has no trials inside its units; use workers")
