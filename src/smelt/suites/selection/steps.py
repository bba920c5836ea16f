"""The steps of a selection suite: which model each makes, what it is asked, and the job that does both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from smelt.jobs.job import Job
from smelt.recipe.schema import Recipe
from smelt.select.group_merges import identity_of
from smelt.select.subset_recipe import narrowed
from smelt.suites.expected_row import ExpectedRow
from smelt.suites.plan import BenchOptions, Step
from smelt.suites.selection.candidate import BASE, JOINT, Candidate, alone
from smelt.suites.selection.suite import KINDS, SelectionSuite
from smelt.suites.units import digest, setting_of

if TYPE_CHECKING:
    from smelt.runs.run_folder import RunFolder
    from smelt.suites.selection.answers import StoredAnswers

__all__ = ["SOUP", "SelectionSteps", "ask_words"]

_UNITS = "smelt.suites.selection.units"
SOUP = "selection-soup"
"""The file that the greedy soup leaves among the analyses."""


def ask_words(suite: SelectionSuite, options: BenchOptions, folder: RunFolder) -> dict[str, Any]:
    """What every unit is told about the sets, and how to compute."""
    return {
        "store": str((folder.path / "logits").resolve()),
        "kinds": {kind: {"tasks": suite.sets(kind), "split": suite.split(kind)} for kind in KINDS},
        "perturbations": {name: asdict(suite.perturbation(name)) for name in suite.perturbations},
        "repeats": suite.repeats,
        "limit": options.limit or suite.limit,
        "device": options.device,
        "dtype": options.dtype,
        "threads": options.threads,
        "allow_pickle": suite.allow_pickle,
    }


class SelectionSteps:
    """Makes steps; the recipe of every merged group is left in the folder."""

    def __init__(
        self,
        suite: SelectionSuite,
        prints: Mapping[str, str],
        ask: Mapping[str, Any],
        folder: RunFolder,
        answers: StoredAnswers,
    ):
        """`prints` are hashes of the models' files by name, with `base` and `joint` among them."""
        self.answers = answers
        self.suite, self.prints, self.ask, self.folder = suite, dict(prints), dict(ask), folder
        self.recipes = {name: suite.recipe(name) for name in suite.entries}
        self.every = tuple(suite.pool.models)
        self.kinds = tuple(kind for kind in KINDS if suite.sets(kind))

    def identity(self, member: Candidate) -> str:
        """What a model follows from, as the store knows it."""
        if member.entry in (BASE, JOINT):
            return f"model {self.prints['base' if member.entry == BASE else 'joint']}"
        recipe = self.recipes[member.entry if member.part else self.suite.average]
        return identity_of(recipe, self.prints, member.names)

    def singles(self) -> list[Step]:
        """The base, every expert, the model that was trained on everything."""
        suite = self.suite
        assert suite.pool.base is not None
        guide, every = (suite.guide,), tuple(suite.perturbations)
        found = [self._as_it_is(Candidate(BASE), "Before fine-tuning", suite.pool.base, guide)]
        for name, ref in suite.pool.models.items():
            found.append(self._as_it_is(alone(name), f"Expert: {name}", ref, every))
        if suite.joint is not None:
            found.append(self._as_it_is(Candidate(JOINT), "Trained on everything", suite.joint, guide))
        return found

    def merged(self, wanted: Mapping[Candidate, tuple[Sequence[str], Sequence[str]]]) -> list[Step]:
        """Groups, each with the kinds of sets and the perturbations that it is asked by; experts are there already."""
        return [self._merged(m, tuple(kinds), tuple(how)) for m, (kinds, how) in wanted.items() if m.part is not None]

    def soup(self) -> Step:
        """The search over labelled validation sets."""
        recipe = self.recipes[self.suite.average].dump()
        words = {"recipe": recipe, "entry": self.suite.average, "prints": self.prints, "ask": self.ask}
        words["kind"] = "validation"
        asked = digest(words)
        job = Job(f"{_UNITS}:soup", {**words, "asked": asked}, "Greedy soup")
        return Step("Greedy soup", [], job, {SOUP: asked}, counted=False)

    def write_choices(self) -> None:
        """The recipes with which `smelt select uq` and `smelt select soup` make the choices again."""
        suite, limit = self.suite, self.ask["limit"]
        how = asdict(suite.perturbation(suite.guide))
        words = {"tasks": suite.held_in, "limit": limit, **how, "repeats": suite.repeats, "choose": suite.choose}
        chosen = {
            "uq": words,
            **({"soup": {"tasks": suite.validation, "limit": limit}} if suite.validation and suite.soup else {}),
        }
        for name, one in chosen.items():
            self.folder.write_recipe(name, Recipe.parse({**self.recipes[suite.average].dump(), "select": {name: one}}))

    def _as_it_is(self, member: Candidate, label: str, ref: str, perturbations: tuple[str, ...]) -> Step:
        about = {"suite": self.suite.name, "entry": member.entry, "label": label, "variant": "reference", "called": ref}
        return self._step(member, label, {"ref": ref}, about, [], self.kinds, perturbations)

    def _merged(self, member: Candidate, kinds: tuple[str, ...], perturbations: tuple[str, ...]) -> Step:
        recipe = self.recipes[member.entry]
        some = narrowed(recipe, member.names)
        self.folder.write_recipe(member.stem, some)
        label = self.suite.entries[member.entry].label
        about: dict[str, Any] = {"suite": self.suite.name, "entry": member.entry, "label": label}
        about["variant"] = "published"
        about |= {"part": member.part, "setting": setting_of(recipe), "recipe_hash": some.hash, "seed": some.seed}
        about |= {"model": "merged", "called": member.stem}
        made = ["smelt", "merge", f"recipes/{member.stem}.yaml", "-o", member.stem]
        model = {"recipe": recipe.dump(), "names": list(member.names), "prints": self.prints}
        return self._step(member, f"{label}, {self._said(member)}", model, about, made, kinds, perturbations)

    def _said(self, member: Candidate) -> str:
        many = len(member.names) not in (len(self.every), len(self.every) - 1)
        return f"{len(member.names)} models: {member.part}" if many else str(member.part)

    def _step(
        self,
        member: Candidate,
        label: str,
        model: Mapping[str, Any],
        about: Mapping[str, Any],
        made: Sequence[str],
        kinds: tuple[str, ...],
        perturbations: tuple[str, ...],
    ) -> Step:
        identity = self.identity(member)
        words = {
            "model": model,
            "identity": identity,
            "kinds": list(kinds),
            "perturbations": list(perturbations),
            "ask": self.ask,
            "about": about,
            "first": list(made),
        }
        sets = [one.task.name for kind in kinds for one in self.answers.sets(kind)]
        cells = [ExpectedRow(member.entry, about["variant"], task, member.part) for task in sets]
        job = Job(f"{_UNITS}:asked", words, label)
        return Step(label, cells, job, stored=lambda: self.answers.has(identity, kinds, perturbations))
