"""The plan of a language suite: the references, then every entry, from the look at its data to its rows. One round.

What goes wrong costs its own cells: a task that cannot be asked those of that task, a model that cannot be made its
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError, listed
from smelt.jobs.job import Job
from smelt.recipe.schema import Pool
from smelt.runs.fingerprint import model_fingerprints
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.kind import SuiteKind, suite_kinds
from smelt.suites.language.report.pages import LanguagePages
from smelt.suites.language.suite import LanguageEntry, LanguageSuite
from smelt.suites.plan import BenchOptions, Step, SuitePlan, chosen, mean_accuracy, naming
from smelt.suites.units import digest
from smelt.tasks.documents import shared
from smelt.tasks.examples import tasks_for

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.state import RunState
    from smelt.tasks.task import Task

__all__ = ["LanguagePlan"]

_UNITS = "smelt.suites.language.units"


class LanguagePlan(SuitePlan):
    """The steps of some entries and tasks of a suite."""

    def __init__(self, suite: LanguageSuite, options: BenchOptions):
        self.suite, self.options = suite, options
        self.entries = {name: suite.entries[name] for name in chosen("method", options.methods, suite.entries)}
        self._check()
        asked = chosen("task", options.tasks, [*suite.tests, *suite.general])
        known = _tasks({word: suite.said(word) for word in (*suite.tests, *suite.general)}, suite.split)
        validation = _tasks({suite.said(word): suite.said(word) for word in suite.validation}, "val")
        self._refuse_shared(known, validation)
        self.names = {word: task.name for word, task in known.items()}
        """What the tasks are called, by what the suite calls them."""
        self.asked = {word: self.names[word] for word in asked}
        self.validation = _quick_first(validation)
        self.validated_by = {name: validation[suite.said(word)].name for name, word in suite.validation_tasks.items()}
        """The validation task of each domain that has one."""
        self.limit = options.limit or suite.limit
        self.general_limit = options.limit or suite.general_limit or suite.limit
        self.curve_limit = options.curve_limit or suite.curve_limit
        models = suite.pool.models | ({"multitask": suite.multitask} if suite.multitask else {})
        everyone = Pool(base=suite.pool.base, models=models)
        self.protocol = {
            **suite.protocol(),
            "limit": self.limit,
            "general_limit": self.general_limit,
            "curve_limit": self.curve_limit,
            "dtype": options.dtype,
            "entries": {name: digest(suite.recipe(entry).dump()) for name, entry in suite.entries.items()},
            "models": model_fingerprints(everyone, allow_pickle=suite.allow_pickle),
            "tasks": {task.name: task.fingerprint() for task in (*known.values(), *validation.values())},
        }
        self.total = 1 + len(suite.domains) + (suite.multitask is not None) + len(self.entries)

    def rounds(self, state: RunState) -> Iterator[list[Step]]:
        """In the suite's order; where several run at once the settings to try decide, the most first."""
        trials = {name: self._trials(entry) for name, entry in self.entries.items()}
        steps = [*self._references(state), *(self._entry(state, name, entry) for name, entry in self.entries.items())]
        if self.options.workers > 1:
            steps.sort(key=lambda step: -trials.get(step.expected[0].entry, 0) if step.expected else 0)
        yield steps

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """The mean over the tests of all domains."""
        tests = {self.names[word] for word in self.suite.tests}
        return mean_accuracy([row for row in rows if row.task in tests])

    def describe(self, state: RunState) -> None:
        """Which tasks are of which domain."""
        suite, there = self.suite, {row.entry for row in state.rows}
        asked = {*self.asked.values(), *(row.task for row in state.rows)}

        def names(words: Iterable[str]) -> list[str]:
            """Of these tasks those that this run or an earlier one asked about, whatever came of it."""
            return [self.names[word] for word in words if self.names[word] in asked]

        domains = {name: names(domain.tests) for name, domain in suite.domains.items()}
        domains = {name: tests for name, tests in domains.items() if tests} or {
            name: [self.names[word] for word in domain.tests] for name, domain in suite.domains.items()
        }
        content = {
            "title": suite.title,
            "domains": domains,
            "general": names(suite.general),
            "experts": {name: f"expert-{name}" for name in domains},
            "base": "pretrained",
            "validation": {name: task for name, task in self.validated_by.items() if name in domains},
            "multitask": "multitask" if suite.multitask else None,
            "entries": [name for name in suite.entries if name in there],
        }
        state.write_analysis("language", content)

    def _refuse_shared(self, known: Mapping[str, Task], validation: Mapping[str, Task]) -> None:
        """Refuse to choose or to learn on what is reported, before anything is computed."""
        reported = [(task, self.suite.split) for task in known.values()]
        if found := shared([(task, "val") for task in validation.values()], reported):
            raise RecipeError(f"settings would be chosen on what is reported: {listed(found)}")
        looks = {name: self.suite.recipe(entry).data for name, entry in self.entries.items() if entry.data}
        for name, data in looks.items():
            tasks = tasks_for(list(self.suite.pool.models), data)
            split = (data.split if data else None) or "train"
            if found := shared([(task, split) for task in tasks.values()], reported):
                raise RecipeError(f"{name} would look at what is reported: {listed(found)}")

    def _check(self) -> None:
        """Refuse what cannot be served before anything is computed."""
        from smelt.prepare.prepare import check_recipe, combination_of

        for name, entry in self.entries.items():
            with naming(name):
                recipe = self.suite.recipe(entry)
                check_recipe(recipe)
                if combination_of(recipe.merge) == "mix":
                    raise RecipeError("makes a larger model; this suite merges")
                self._trials(entry)

    def _trials(self, entry: LanguageEntry) -> int:
        """How many settings of an entry are tried."""
        from smelt.search.tune import grid_size

        return grid_size(self.suite.recipe(entry)) if entry.tune and self.options.tune else 0

    def _references(self, state: RunState) -> Iterator[Step]:
        suite = self.suite
        assert suite.pool.base is not None
        everything = [*suite.tests, *suite.general]
        validation = self._validation_of_references()
        yield self._reference(state, "pretrained", "Pre-trained", suite.pool.base, everything, validation)
        for name, domain in suite.domains.items():
            own = everything if suite.experts == "all" else domain.tests
            ref = suite.pool.models[name]
            yield self._reference(state, f"expert-{name}", f"Expert: {name}", ref, own, validation)
        if suite.multitask is not None:
            yield self._reference(state, "multitask", "Multi-task training", suite.multitask, everything)

    def _validation_of_references(self) -> dict[str, str]:
        """What base and specialists are asked so that the best single specialist is chosen on no test: names by words.

        Nothing where specialists answer for their own domain alone, or only some tasks were asked for.
        """
        suite = self.suite
        wanted = suite.experts == "all" and self.asked.keys() >= set(suite.tests)
        if not wanted or self.validated_by.keys() < suite.domains.keys():
            return {}
        return {suite.said(word): self.validated_by[name] for name, word in suite.validation_tasks.items()}

    def _reference(
        self,
        state: RunState,
        entry: str,
        label: str,
        ref: str,
        tasks: Sequence[str],
        validation: Mapping[str, str] | None = None,
    ) -> Step:
        about = {"suite": self.suite.name, "entry": entry, "label": label, "variant": "reference"}
        cells = self._cells(entry, "reference", tasks)
        chosen_by = {word: ExpectedRow(entry, "reference", name) for word, name in (validation or {}).items()}
        words = {"ref": ref, "ask": self._ask(state, cells, chosen_by), "about": about}
        every = [*cells.values(), *chosen_by.values()]
        return Step(label, every, Job(f"{_UNITS}:reference", words, label))

    def _entry(self, state: RunState, name: str, entry: LanguageEntry) -> Step:
        tunes = self.options.tune and bool(entry.tune)
        variant = "tuned" if tunes else "published"
        recipe = self.suite.recipe(entry)
        cells = self._cells(name, variant, [*self.suite.tests, *self.suite.general])
        words = {
            "name": name,
            "recipe": (recipe if tunes else recipe.model_copy(update={"tune": None})).dump(),
            "validation": {"tasks": self.validation, "limit": self.curve_limit} if tunes else None,
            "at_once": self.options.trial_workers,
            "folder": str(state.path.resolve()),
            "keep": self.options.keep_models,
            "ask": self._ask(state, cells),
            "about": {"suite": self.suite.name, "entry": name, "label": entry.label, "variant": variant},
        }
        return Step(entry.label, list(cells.values()), Job(f"{_UNITS}:made", words, entry.label))

    def _cells(self, entry: str, variant: str, tasks: Sequence[str]) -> dict[str, ExpectedRow]:
        """Of the chosen tasks among these, by what the suite calls them."""
        return {task: ExpectedRow(entry, variant, self.asked[task]) for task in tasks if task in self.asked}

    def _ask(
        self,
        state: RunState,
        cells: Mapping[str, ExpectedRow],
        validation: Mapping[str, ExpectedRow] | None = None,
    ) -> dict[str, Any]:
        """What is missing, in groups. Tests and general tasks are by the suite's words, `validation` as it is asked."""
        tasks = [task for task, cell in cells.items() if state.missing([cell])]
        general = [task for task in tasks if task in self.suite.general]
        groups = {self.limit: [task for task in tasks if task not in general]}
        groups.setdefault(self.general_limit, []).extend(general)
        asked = [
            {"tasks": [self.suite.said(name) for name in names], "limit": limit, "split": self.suite.split}
            for limit, names in groups.items()
        ]
        chosen_by = [word for word, cell in (validation or {}).items() if state.missing([cell])]
        asked.append({"tasks": chosen_by, "limit": self.curve_limit, "split": "val"})
        return {
            "groups": [group for group in asked if group["tasks"]],
            "device": self.options.device,
            "dtype": self.options.dtype,
            "threads": self.options.threads,
            "allow_pickle": self.suite.allow_pickle,
        }


def _tasks(words: Mapping[str, str], split: str) -> dict[str, Any]:
    """Tasks by what the suite calls them, from how they are asked: each is one task, of text, and has the split."""
    from smelt.tasks.registry import find_tasks

    found: dict[str, Any] = {}
    for word, said in words.items():
        meant = find_tasks([said])
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


suite_kinds["language"] = SuiteKind(
    "language", LanguageSuite, LanguagePlan, LanguagePages(), folder=Path(__file__).parent
)
