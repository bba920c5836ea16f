"""The loop of a language suite: references and entries, every step's rows on disk at once, then the report.

What goes wrong costs its own cells: a task that cannot be asked those of that task, a model that cannot be made its
line. All of it is told at the end, when everything else is on disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError, SmeltError
from smelt.evaluation.fingerprint import model_fingerprints
from smelt.evaluation.row import CostRow, Row
from smelt.evaluation.run_folder import RunFolder
from smelt.jobs.failure import unpack_error
from smelt.recipe.schema import Pool
from smelt.suites.collaboration.score import digest
from smelt.suites.frame import named, run_through
from smelt.suites.language.steps import Step, Steps
from smelt.suites.language.suite import LanguageSuite
from smelt.suites.options import Finished, Options
from smelt.suites.rounds import settled

__all__ = ["bench_language"]


def bench_language(
    suite: LanguageSuite,
    out: Path,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    options: Options,
    *,
    force: bool,
) -> Finished:
    """Run a language suite into a folder; one with some of the rows is completed."""
    began = time.perf_counter()
    suite = suite.with_preset(options.preset)
    entries = named("method", methods, suite.entries)
    _check(suite, entries, options)
    asked = named("task", tasks, [*suite.tests, *suite.general])
    return run_through(_Run(suite, out, entries, asked, options, force), began)


def _check(suite: LanguageSuite, entries: Sequence[str], options: Options) -> None:
    """Refuse what cannot be served before anything is computed."""
    from smelt.models.families.model_input import check_device
    from smelt.prepare.prepare import check_recipe, way_of
    from smelt.search.tune import grid_size

    check_device(options.device, options.dtype)
    for name in entries:
        entry = suite.entries[name]
        try:
            recipe = suite.recipe(entry)
            check_recipe(recipe)
            if way_of(recipe.merge) == "mix":
                raise RecipeError("makes a larger model; this suite merges")
            if entry.tune and options.tune:
                grid_size(recipe)
        except SmeltError as error:
            raise RecipeError(f"{name}: {error}") from None


def _tasks(words: Sequence[str], split: str) -> dict[str, Any]:
    """Tasks by what the suite calls them: each is one task, of text, and has the split."""
    from smelt.tasks.registry import find_tasks

    found: dict[str, Any] = {}
    for word in words:
        meant = find_tasks([word])
        if len(meant) != 1:
            raise RecipeError(f"{word!r} means {len(meant)} tasks; name them one by one")
        if meant[0].model_kind == "classifier":
            raise RecipeError(f"{word!r} is a task of pictures; a language suite asks language tasks")
        meant[0].check_split(split)
        found[word] = meant[0]
    return found


def _quick_first(tasks: Mapping[str, Any]) -> list[str]:
    """Choices before texts that have to be written: a hopeless setting is then stopped before the costly part."""
    return sorted(tasks, key=lambda word: tasks[word].config.get("output_type") == "generate_until")


class _Run:
    def __init__(
        self, suite: LanguageSuite, out: Path, entries: list[str], tasks: list[str], options: Options, force: bool
    ):
        self.suite, self.options, self.entries = suite, options, entries
        known = self.tasks = _tasks([*suite.tests, *suite.general], suite.split)
        chosen_on = _tasks(suite.validation, "val")
        self.names = {word: known[word].name for word in tasks}
        models = suite.pool.models | ({"multitask": suite.multitask} if suite.multitask else {})
        everyone = Pool(base=suite.pool.base, models=models)
        words = {
            **suite.words(),
            "limit": options.limit or suite.limit,
            "general_limit": options.limit or suite.general_limit or suite.limit,
            "curve_limit": options.curve_limit or suite.curve_limit,
            "dtype": options.dtype,
            "entries": {name: digest(suite.recipe(entry).dump()) for name, entry in suite.entries.items()},
            "models": model_fingerprints(everyone, allow_pickle=suite.allow_pickle),
            "tasks": {task.name: task.fingerprint() for task in (*known.values(), *chosen_on.values())},
        }
        self.folder = RunFolder(out, words, force=force)
        self.steps = Steps(suite, entries, self.names, _quick_first(chosen_on), options, self.folder).all()
        self.failures: dict[str, SmeltError] = {}
        self.done = 0

    def everything(self) -> None:
        for step, done in settled(self.steps, lambda step: not step.missing, self.options):
            if done is None:
                self._told(step, None)
                continue
            if done.error is not None:
                self.failures[step.label] = done.error
                self._tell(f"{step.label}: FAILED, {_first_line(done.error)}")
                continue
            self.folder.add(self._new(done.result["rows"]))
            self._describe()  # so that a run that was stopped has a report too
            for task, packed in done.result["failures"].items():
                error = unpack_error(packed)
                self.failures[f"{step.label}, {task}"] = error
                self.options.tell(f"        {step.label}, {task}: FAILED, {_first_line(error)}")
            self._told(step, done.seconds)
        if self.folder.rows:  # of earlier runs, perhaps
            self._describe()

    def _describe(self) -> None:
        """What the report has to know beside the rows: which tasks are of which domain."""
        suite, there = self.suite, {row.entry for row in self.folder.rows if isinstance(row, Row)}
        domains = {name: self._asked(domain.tests) for name, domain in suite.domains.items()}
        domains = {name: tests for name, tests in domains.items() if tests} or {
            name: [task.name for task in self._known(domain.tests)] for name, domain in suite.domains.items()
        }
        content = {
            "title": suite.title,
            "domains": domains,
            "general": self._asked(suite.general),
            "experts": {name: f"expert-{name}" for name in domains},
            "base": "pretrained",
            "multitask": "multitask" if suite.multitask else None,
            "entries": [name for name in suite.entries if name in there],
        }
        folder = self.folder.path / "analyses"
        folder.mkdir(exist_ok=True)
        (folder / "language.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _asked(self, words: Iterable[str]) -> list[str]:
        """Of these tasks those that this run or an earlier one asked about, whatever came of it, by name."""
        asked = {*self.names.values(), *(row.task for row in self.folder.rows if isinstance(row, Row))}
        return [task.name for task in self._known(words) if task.name in asked]

    def _known(self, words: Iterable[str]) -> list[Any]:
        return [self.tasks[word] for word in words]

    def _new(self, contents: Sequence[Mapping[str, Any]]) -> list[Row | CostRow]:
        """Rows that are not there: a step that is completed tells of its trials and its cost again."""
        known = {_cell(row) for row in self.folder.rows}
        rows = [(Row if one["kind"] == "accuracy" else CostRow).model_validate(one) for one in contents]
        return [row for row in rows if _cell(row) not in known]

    def _told(self, step: Step, spent: float | None) -> None:
        how = f"{spent:.1f} s" if spent is not None else "there already"
        tests = {self.names[word] for word in self.suite.tests if word in self.names}
        own = [row for row in self.folder.rows if isinstance(row, Row) and step.owns(row) and row.task in tests]
        mean = f"{100 * sum(row.accuracy for row in own) / len(own):5.1f} %" if own else "-"
        self._tell(f"{step.label}: {mean} ({how})")

    def _tell(self, text: str) -> None:
        self.done += 1
        self.options.tell(f"[{self.done:2}/{len(self.steps)}] {text}")


def _first_line(error: SmeltError) -> str:
    return str(error).splitlines()[0]


def _cell(row: Row | CostRow) -> tuple[Any, ...]:
    """What a row is the number of."""
    if isinstance(row, CostRow):
        return ("cost", row.entry, row.variant)
    return (row.variant, row.entry, row.task, row.recipe_hash)
