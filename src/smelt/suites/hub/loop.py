"""The loop of a hub suite: every model by itself, then everything that chooses among them, then the report.

Every step's rows are on disk at once; a run that was stopped goes on at the step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.evaluation.fingerprint import model_fingerprints
from smelt.evaluation.row import CostRow, Row
from smelt.evaluation.run_folder import RunFolder
from smelt.files.atomic import write_json
from smelt.files.json_reader import read_json
from smelt.recipe.schema import Pool
from smelt.suites.failures import complain
from smelt.suites.frame import named, refuse_presets, run_through
from smelt.suites.hub.parts import COUNT, MODEL, MODELS
from smelt.suites.hub.steps import Step, Steps
from smelt.suites.hub.suite import HubSuite
from smelt.suites.options import Finished, Options
from smelt.suites.rounds import settled
from smelt.tasks.registry import picture_task

__all__ = ["bench_hub"]


def bench_hub(
    suite: HubSuite,
    out: Path,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    options: Options,
    *,
    force: bool,
) -> Finished:
    """Run a hub suite into a folder; one with some of the rows is completed."""
    from smelt.suites.hub.work import forget_work

    began = time.perf_counter()
    refuse_presets(suite, options)
    entries, asked = named("method", methods, suite.entries), named("task", tasks, suite.tasks)
    try:
        return run_through(_Run(suite, out, entries, asked, options, force), began)
    finally:
        forget_work()


def _check(suite: HubSuite, tasks: Sequence[str], options: Options) -> None:
    """Refuse what cannot be served before anything is computed."""
    from smelt.models.families.model_input import check_device

    if options.dtype != "float32":
        raise RecipeError(f"dtype: {suite.name} keeps cosines in float32; leave it out")
    if options.keep_models or options.curve_limit:
        word = "keep_models" if options.keep_models else "curve_limit"
        raise RecipeError(f"{word}: {suite.name} makes no models and tunes no scales; leave it out")
    if len(tasks) < 2:
        raise RecipeError(f"tasks: {suite.name} averages over tasks and learns from the others; name at least two")
    check_device(options.device, options.dtype)


class _Run:
    def __init__(self, suite: HubSuite, out: Path, methods: list[str], tasks: list[str], options: Options, force: bool):
        from smelt.hub.graph.graph import find_graph

        _check(suite, tasks, options)
        self.options = options
        self.steps = Steps(suite, tasks, methods, options)
        found = {name: picture_task(name) for name in tasks}
        for name, task in found.items():
            if task.name != name:
                raise RecipeError(
                    f"tasks.{name}: a target bears the name of its task, but that is called {task.name!r}"
                )
            task.check_split("test")
        words = {
            "suite": f"{suite.name}@{suite.version}",
            "limit": self.steps.hub["limit"],
            "graph": find_graph(suite.graph).version,
            **{word: self.steps.hub[word] for word in ("embedder", "nodes", "scale", "seed")},
            "models": model_fingerprints(Pool(models=self.steps.models)),
            "tasks": {name: task.fingerprint() for name, task in found.items()},
            "told": {name: [suite.tasks[name].domain, suite.tasks[name].task] for name in tasks},
        }
        self.folder = RunFolder(out, words, force=force)
        self.failures: dict[str, SmeltError] = {}
        self.done = 0

    def everything(self) -> None:
        """The models first: what is chosen among has to be there as a whole."""
        self._round(self.steps.first())
        if self.failures:
            complain(self.failures)
        self._round(self.steps.later(self._known()))

    def _known(self) -> dict[str, dict[str, Any]]:
        """What is known of every model since its step: its hash, its preparation of pictures, its operations."""
        costs = (row for row in self.folder.rows if isinstance(row, CostRow) and row.part == MODELS)
        return {row.entry.removeprefix(MODEL): row.setting for row in costs}

    def _round(self, steps: Iterable[Step]) -> None:
        for step, done in settled(steps, self._there, self.options):
            if done is None:
                self._told(step, None)
                continue
            if done.error is not None:
                self.done += 1
                self.failures[step.label] = done.error
                self._tell(step, f": FAILED, {str(done.error).splitlines()[0]}")
                continue
            self._draw(done.result["analyses"])
            self.folder.add(self._new(done.result["rows"]))
            self._told(step, done.seconds)

    def _there(self, step: Step) -> bool:
        """Whether all that a step leaves is in the folder."""
        if any(self._asked(name) != asked for name, asked in step.figures.items()):
            return False
        if step.rows and step.entry.startswith(MODEL) and step.entry.removeprefix(MODEL) not in self._known():
            return False
        return sum(step.owns(row) for row in self.folder.rows if isinstance(row, Row)) >= step.rows

    def _asked(self, figure: str) -> str | None:
        """What a figure that is there was asked to show."""
        try:
            content = read_json(self.folder.path / "analyses" / f"{figure}.json")
        except CorruptFile:
            return None
        return str(content.get("asked")) if isinstance(content, dict) else None

    def _new(self, contents: Sequence[Mapping[str, Any]]) -> list[Row | CostRow]:
        """Rows that are not there; a run that was killed while it wrote may have left some of a step's."""
        known = {_cell(row) for row in self.folder.rows}
        rows = [(Row if one["kind"] == "accuracy" else CostRow).model_validate(one) for one in contents]
        return [row for row in rows if _cell(row) not in known]

    def _draw(self, analyses: Mapping[str, Any]) -> None:
        """Figures as data, for the report; each is there whole or not at all."""
        for name, content in analyses.items():
            write_json(self.folder.path / "analyses" / f"{name}.json", content, indent=None)

    def _told(self, step: Step, spent: float | None) -> None:
        self.done += 1
        how = f"{spent:.1f} s" if spent is not None else "there already"
        said = []
        rows = [row for row in self.folder.rows if isinstance(row, Row) and step.owns(row)]
        for part in step.settings if len(step.settings) * len(step.tasks) == step.rows else ():
            own = [row.accuracy for row in rows if row.part == part]
            name = part.partition(": ")[2]
            said.append(f"{'' if part == MODELS else name + ' '}{100 * sum(own) / max(len(own), 1):.1f} %")
        self._tell(step, f"{': ' if said else ''}{', '.join(said)} ({how})")

    def _tell(self, step: Step, text: str) -> None:
        self.options.tell(f"[{self.done:2}/{self.steps.count}] {step.label}{text}")


def _cell(row: Row | CostRow) -> tuple[Any, ...]:
    """What a row is the number of."""
    if isinstance(row, CostRow):
        return ("cost", row.entry, row.variant, row.part, row.setting.get("k") if row.part == COUNT else None)
    return (row.part, row.variant, row.entry, row.task, json.dumps(row.setting, sort_keys=True))
