"""The loop of a selection suite: single models, growing groups, then what follows from the chosen one; the report.

Every step's rows are on disk at once and its answers in the store, so that a run that was stopped goes on at the step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from smelt.errors import RecipeError, SmeltError
from smelt.suites.frame import named, run_through
from smelt.suites.options import Finished, Options
from smelt.suites.selection.run import Run
from smelt.suites.selection.session import forget_desk
from smelt.suites.selection.suite import SelectionSuite

__all__ = ["bench_selection"]


def bench_selection(
    suite: SelectionSuite,
    out: Path,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    options: Options,
    *,
    force: bool,
) -> Finished:
    """Run a selection suite into a folder; one with some of the rows is completed."""
    began = time.perf_counter()
    suite = suite.with_preset(options.preset)
    if tasks is not None:
        raise RecipeError(f"tasks: {suite.name} chooses by all of its sets; leave it out, or give a smaller limit")
    entries = named("method", [*methods, suite.average] if methods else None, suite.entries)
    _check(suite, entries, options)
    try:
        return run_through(Run(suite, out, entries, options, force), began)
    finally:
        forget_desk()


def _check(suite: SelectionSuite, entries: Sequence[str], options: Options) -> None:
    """Refuse what cannot be served before anything is computed."""
    from smelt.models.families.model_input import check_device
    from smelt.prepare.prepare import check_recipe, needs_data

    check_device(options.device, options.dtype)
    if options.trial_workers != 1:
        raise RecipeError(f"trial_workers: {suite.name} has no trials inside its units; use workers")
    if options.keep_models or options.curve_limit:
        word = "keep_models" if options.keep_models else "curve_limit"
        raise RecipeError(f"{word}: {suite.name} merges in memory and tunes nothing; leave it out")
    for name in entries:
        try:
            check_recipe(suite.recipe(name))
            if needs_data(suite.recipe(name)):
                raise RecipeError("looks at data for every merge; a selection suite merges many groups without any")
        except SmeltError as error:
            raise RecipeError(f"{name}: {error}") from None
