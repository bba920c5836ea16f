"""The steps of a language suite: the references, then every entry; which cells each fills, and the job that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.evaluation.row import Row
from smelt.jobs.job import Job
from smelt.suites.language.suite import Entry, LanguageSuite

if TYPE_CHECKING:
    from smelt.evaluation.run_folder import RunFolder
    from smelt.suites.options import Options

__all__ = ["Step", "Steps"]

_UNITS = "smelt.suites.language.units"


@dataclass(frozen=True)
class Step:
    """One line that the run tells about, its rows known by entry and variant."""

    label: str
    entry: str
    variant: str
    job: Job
    missing: int
    """Tasks that it has no row of yet."""
    trials: int = 0
    """Settings that it tries."""

    def owns(self, row: Row) -> bool:
        return (row.entry, row.variant) == (self.entry, self.variant)


class Steps:
    """Makes the steps of a suite for some of its entries and tasks."""

    def __init__(
        self,
        suite: LanguageSuite,
        entries: Sequence[str],
        tasks: Mapping[str, str],
        validation: Sequence[str],
        options: Options,
        folder: RunFolder,
    ):
        """`tasks` are the names of the chosen tasks by what the suite calls them.

        `validation` are those that settings are chosen on, in the order in which they are asked.
        """
        self.suite, self.options, self.folder = suite, options, folder
        self.entries = {name: suite.entries[name] for name in entries}
        self.tasks, self.validation = dict(tasks), list(validation)
        self.limit = options.limit or suite.limit
        self.general_limit = options.limit or suite.general_limit or suite.limit
        self.curve_limit = options.curve_limit or suite.curve_limit

    def all(self) -> list[Step]:
        """In the suite's order; where several run at once the longest come first."""
        found = [*self._references(), *(self._entry(name, entry) for name, entry in self.entries.items())]
        return sorted(found, key=lambda step: -step.trials) if self.options.workers > 1 else found

    def _references(self) -> Iterator[Step]:
        suite = self.suite
        assert suite.pool.base is not None
        everything = [*suite.tests, *suite.general]
        yield self._reference("pretrained", "Pre-trained", suite.pool.base, everything)
        for name, domain in suite.domains.items():
            own = everything if suite.experts == "all" else domain.tests
            yield self._reference(f"expert-{name}", f"Expert: {name}", suite.pool.models[name], own)
        if suite.multitask is not None:
            yield self._reference("multitask", "Multi-task training", suite.multitask, everything)

    def _reference(self, entry: str, label: str, ref: str, tasks: Sequence[str]) -> Step:
        about = {"suite": self.suite.name, "entry": entry, "label": label, "variant": "reference"}
        missing = self._missing(entry, "reference", tasks)
        job = Job(f"{_UNITS}:reference", {"ref": ref, "ask": self._ask(missing), "about": about}, label)
        return Step(label, entry, "reference", job, len(missing))

    def _entry(self, name: str, entry: Entry) -> Step:
        from smelt.search.tune import grid_size

        tunes = self.options.tune and bool(entry.tune)
        variant = "tuned" if tunes else "published"
        recipe = self.suite.recipe(entry)
        missing = self._missing(name, variant, [*self.suite.tests, *self.suite.general])
        words = {
            "name": name,
            "recipe": (recipe if tunes else recipe.model_copy(update={"tune": None})).dump(),
            "validation": {"tasks": self.validation, "limit": self.curve_limit} if tunes else None,
            "at_once": self.options.trial_workers,
            "folder": str(self.folder.path.resolve()),
            "keep": self.options.keep_models,
            "ask": self._ask(missing),
            "about": {"suite": self.suite.name, "entry": name, "label": entry.label, "variant": variant},
        }
        job = Job(f"{_UNITS}:made", words, entry.label)
        return Step(entry.label, name, variant, job, len(missing), grid_size(recipe) if tunes else 0)

    def _missing(self, entry: str, variant: str, tasks: Sequence[str]) -> list[str]:
        """The chosen tasks among these that have no row, as the suite calls them."""
        rows = (row for row in self.folder.rows if isinstance(row, Row))
        done = {row.task for row in rows if (row.entry, row.variant) == (entry, variant)}
        return [task for task in tasks if task in self.tasks and self.tasks[task] not in done]

    def _ask(self, tasks: Sequence[str]) -> dict[str, Any]:
        general = [task for task in tasks if task in self.suite.general]
        groups = {self.limit: [task for task in tasks if task not in general]}
        groups.setdefault(self.general_limit, []).extend(general)
        return {
            "groups": [{"tasks": names, "limit": limit} for limit, names in groups.items() if names],
            "split": self.suite.split,
            "device": self.options.device,
            "dtype": self.options.dtype,
            "threads": self.options.threads,
            "allow_pickle": self.suite.allow_pickle,
        }
