"""The loop of a collaboration suite: step after step, every step's rows on disk at once, then the report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.engine.pool import opened
from smelt.errors import IncompatibleModels, RecipeError, SmeltError, unknown
from smelt.evaluation.fingerprint import model_fingerprints
from smelt.evaluation.row import Row
from smelt.evaluation.run_folder import RunFolder
from smelt.suites.collaboration.blend import coefficients
from smelt.suites.collaboration.steps import Step, steps_of
from smelt.suites.collaboration.suite import CollaborationSuite
from smelt.suites.frame import refuse_presets, run_through
from smelt.suites.options import Finished, Options
from smelt.suites.rounds import settled
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import picture_task

__all__ = ["collaborate"]


def collaborate(
    suite: CollaborationSuite,
    out: Path,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    options: Options,
    *,
    force: bool,
) -> Finished:
    """Run a collaboration suite into a folder; one with some of the rows is completed."""
    began = time.perf_counter()
    refuse_presets(suite, options)
    if tasks is not None:
        raise RecipeError(f"tasks: the groups of {suite.name} name theirs; choose with methods")
    chosen = list(suite.entries if methods is None else methods)
    _check(suite, chosen, options)
    return run_through(_Run(suite, out, chosen, options, force), began)


def _check(suite: CollaborationSuite, methods: Sequence[str], options: Options) -> None:
    """Refuse what cannot be served before anything is computed."""
    from smelt.models.families.model_input import check_device
    from smelt.prepare.prepare import check_recipe, needs_data, way_of

    for name in methods:
        if name not in suite.entries:
            raise RecipeError(unknown("method of the suite", name, suite.entries))
    if options.dtype != "float32":
        raise RecipeError(f"dtype: {suite.name} compares models to the last digit and computes in float32")
    if options.keep_models or options.curve_limit:
        word = "keep_models" if options.keep_models else "curve_limit"
        raise RecipeError(f"{word}: {suite.name} keeps no models and tunes no scales; leave it out")
    check_device(options.device, options.dtype)
    for name, baseline in suite.baselines.items():
        for group in (baseline.only or suite.groups) if name in methods else ():
            recipe = suite.recipe(baseline, group)
            try:
                check_recipe(recipe)
                if baseline.ensemble and not needs_data(recipe):
                    coefficients(recipe)
                if baseline.batch_norm and way_of(recipe.merge) == "mix":
                    raise RecipeError("statistics of BatchNorm are estimated for a merged model, not for a mixture")
            except SmeltError as error:
                raise RecipeError(f"{name}: {error}") from None


def _tasks(suite: CollaborationSuite, methods: Sequence[str]) -> list[PictureTask]:
    """Every expert's task, with the splits that the methods look at."""
    fitted = any(name not in suite.baselines or suite.baselines[name].batch_norm for name in methods)
    found = []
    for expert in suite.tasks:
        task = picture_task(expert)
        if task.name != expert:
            raise RecipeError(f"{expert}: an expert bears the name of its task, but that is called {task.name!r}")
        for split in ("train", "val", "test") if fitted else ("test",):
            task.check_split(split)
        found.append(task)
    return found


def _fingerprints(suite: CollaborationSuite) -> dict[str, str]:
    """Every model of every pool, known by its name there; they have to be of one shape within a pool."""
    found: dict[str, str] = {}
    for name, pool in suite.pools.items():
        with opened(pool) as models:
            faults = models.compatibility(include=suite.include).faults
        if faults:
            raise IncompatibleModels([f"{name}: {fault}" for fault in faults], "collaborate")
        found |= {f"{name}: {model}": one for model, one in model_fingerprints(pool).items()}
    return found


class _Run:
    def __init__(self, suite: CollaborationSuite, out: Path, methods: list[str], options: Options, force: bool):
        self.options = options
        words = {
            "suite": f"{suite.name}@{suite.version}",
            "limit": options.limit or suite.limit,
            "fit": suite.fit.model_dump(),
            "groups": {name: [group.pool, *group.experts] for name, group in suite.groups.items()},
            "transfer": suite.transfer.to if suite.transfer else None,
            "models": _fingerprints(suite),
            "tasks": {task.name: task.fingerprint() for task in _tasks(suite, methods)},
        }
        self.steps = list(steps_of(suite, methods, options))
        self.folder = RunFolder(out, words, force=force)
        self.failures: dict[str, SmeltError] = {}
        self.done = 0

    def everything(self) -> None:
        for step, done in settled(self.steps, self._there, self.options):
            if done is None:
                self._told(step, None)
                continue
            if done.error is not None:
                self.done += 1
                self.failures[step.label] = done.error
                said = f"FAILED, {str(done.error).splitlines()[0]}"
                self.options.tell(f"[{self.done:2}/{len(self.steps)}] {step.label}: {said}")
                continue
            known = {_cell(row) for row in self.folder.rows if isinstance(row, Row)}
            rows = [Row.model_validate(one) for one in done.result["rows"]]
            self._draw(done.result["analyses"])
            self.folder.add([row for row in rows if _cell(row) not in known])
            self._told(step, done.seconds)

    def _there(self, step: Step) -> bool:
        """Whether all of a step's rows are in the folder."""
        return sum(step.owns(row) for row in self.folder.rows if isinstance(row, Row)) >= step.rows

    def _draw(self, analyses: Mapping[str, Any]) -> None:
        """Figures as data, for the report."""
        folder = self.folder.path / "analyses"
        if analyses:
            folder.mkdir(exist_ok=True)
        for name, content in analyses.items():
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

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


def _cell(row: Row) -> tuple[Any, ...]:
    """What a row is the number of. A run that was killed while it wrote may have left some rows of a step."""
    setting = json.dumps(row.setting, sort_keys=True)
    return (row.part, row.variant, row.entry, row.task, row.level, row.recipe_hash, setting)
