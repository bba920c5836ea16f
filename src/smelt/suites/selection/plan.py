"""The plan of a selection suite: single models, growing groups, then what follows from the chosen one.

What a later round is about follows from the answers of those before, which lie in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.suites.kind import SuiteKind, suite_kinds
from smelt.suites.order import ORDER, published_orders
from smelt.suites.plan import BenchOptions, Step, SuitePlan, chosen, naming, refuse
from smelt.suites.published import PUBLISHED, read_table
from smelt.suites.selection.answers import StoredAnswers
from smelt.suites.selection.candidate import Candidate, alone, group
from smelt.suites.selection.describe import Description
from smelt.suites.selection.growth import JUDGED, GrowthPath, Wanted, growing, growth_paths, subsets
from smelt.suites.selection.judged_sets import JudgedSet, LetteredSet
from smelt.suites.selection.paper import UNCERTAIN, resolved, resolved_order
from smelt.suites.selection.process_cache import forget_session, session_of
from smelt.suites.selection.report.pages import SelectionPages
from smelt.suites.selection.steps import SOUP, SelectionSteps, ask_words
from smelt.suites.selection.suite import KINDS, SelectionSuite
from smelt.suites.units import digest

if TYPE_CHECKING:
    from smelt.evaluation.row import Row
    from smelt.suites.state import RunState

__all__ = ["SelectionPlan"]


class SelectionPlan(SuitePlan):
    """The rounds of some entries of a suite."""

    steps: SelectionSteps
    answers: StoredAnswers

    def __init__(self, suite: SelectionSuite, options: BenchOptions):
        from smelt.runs.protocol import content_of
        from smelt.tasks.registry import find_tasks

        refuse(suite, options, tasks="{name} chooses by all of its sets; leave it out, or give a smaller limit")
        wanted = [*options.methods, suite.average] if options.methods else None
        self.suite, self.options, self.entries = suite, options, chosen("method", wanted, suite.entries)
        self.every = tuple(suite.pool.models)
        self._check()
        recipe = suite.recipe(suite.average)
        models = {**suite.pool.models, **({"joint": suite.joint} if suite.joint else {})}
        everyone = recipe.model_copy(update={"pool": recipe.pool.model_copy(update={"models": models})})
        sets = find_tasks([name for kind in KINDS for name in suite.sets(kind)])
        content = content_of(everyone, None, sets)
        self.prints: Mapping[str, str] = content["models"]
        self.protocol = {
            **suite.protocol(),
            "limit": options.limit or suite.limit,
            "dtype": options.dtype,
            "device": options.device.split(":")[0],
            "entries": {name: digest(suite.recipe(name).dump()) for name in suite.entries},
            **content,
        }

    def rounds(self, state: RunState) -> Iterator[Sequence[Step]]:
        """What fails among single models or growing groups ends the run: nothing could be compared."""
        ask = ask_words(self.suite, self.options, state.folder)
        session = session_of(ask)
        _check_labels(session.judged)
        self.answers = StoredAnswers(session)
        self.steps = SelectionSteps(self.suite, self.prints, ask, state.folder, self.answers)
        yield self.steps.singles()
        state.complain()
        paths = self._growth_paths()
        yield self.steps.merged(growing(self.suite, paths, self.steps.kinds))
        if state.failures:
            return
        yield self.steps.merged(self._entries(self._chosen(paths[0])))
        if self.suite.validation and self.suite.soup:
            yield [self.steps.soup()]
            soup = state.analysis(SOUP)
            if soup is not None and "Greedy soup" not in state.failures:
                best = group(self.suite.average, soup["models"], self.every)
                yield self.steps.merged({best: (self.steps.kinds, ())})
        self.steps.write_choices()
        entries = [name for name in self.suite.entries if name in self.entries or self._merged_all(name)]
        found = self._chosen(paths[0])
        about = Description(self.suite, self.steps, self.answers, paths, found, entries, state.analysis(SOUP))
        content = about.content()
        state.write_analysis("selection", content)
        self._write_published(state, content)

    def _write_published(self, state: RunState, content: Mapping[str, Any]) -> None:
        """The printed tables with the names of this run's models; those of uncertainties for pages of our own."""
        for word, names in ((PUBLISHED, self.suite.published), (UNCERTAIN, self.suite.published_uncertainty)):
            if names:
                tables = resolved([read_table(Path(__file__).parent / PUBLISHED, name) for name in names], content)
                state.write_analysis(word, {"tables": [one.model_dump(mode="json") for one in tables]})
        orders = published_orders(self.suite, suite_kinds[self.suite.kind])
        if orders is not None:
            state.write_analysis(ORDER, resolved_order(orders, content))

    def summary(self, step: Step, rows: Sequence[Row]) -> str:
        """The mean over the sets that models are chosen by."""
        names = {one.task.name for one in self.answers.sets("held_in")}
        own = {row.task: row.accuracy for row in rows if row.task in names}
        return f"{100 * sum(own.values()) / len(own):5.1f} % held-in"

    def close(self) -> None:
        forget_session()

    def _check(self) -> None:
        """Refuse what cannot be served before anything is computed."""
        from smelt.prepare.prepare import check_recipe, needs_data

        none_made = "{name} merges in memory and tunes nothing; leave it out"
        none_tried = "{name} has no trials inside its units; use workers"
        refuse(self.suite, self.options, trial_workers=none_tried, keep_models=none_made, curve_limit=none_made)
        for name in self.entries:
            with naming(name):
                recipe = self.suite.recipe(name)
                check_recipe(recipe)
                if needs_data(recipe):
                    raise RecipeError("looks at data for every merge; a selection suite merges many groups without any")

    def _growth_paths(self) -> list[GrowthPath]:
        identity = {name: self.steps.identity(alone(name)) for name in self.every}
        uncertainties = {
            how: {name: self.answers.uncertainty(one, how)["mean"] for name, one in identity.items()}
            for how in self.suite.perturbations
        }
        right = {name: self._accuracy(alone(name)) for name in self.every}
        return growth_paths(self.suite, uncertainties, right)

    def _chosen(self, path: GrowthPath) -> tuple[str, ...]:
        """The group that everything else is compared with."""
        members = path.steps(self.suite.average, self.every)
        values = [self.answers.uncertainty(self.steps.identity(m), self.suite.guide)["mean"] for m in members]
        return members[path.chosen(values)[self.suite.choose] - 1].names

    def _entries(self, chosen: Sequence[str]) -> Wanted:
        """Every entry on the chosen group, on random groups of its size, and on all models."""
        groups = (chosen, *subsets(self.suite, len(chosen)), self.every)
        return {group(entry, names, self.every): (JUDGED, ()) for entry in self.entries for names in groups}

    def _merged_all(self, entry: str) -> bool:
        """Whether an entry was measured by an earlier run."""
        return self.answers.has(self.steps.identity(group(entry, self.every, self.every)), JUDGED, [])

    def _accuracy(self, member: Candidate) -> float:
        return self.answers.accuracy(self.steps.identity(member), ["held_in"])


def _check_labels(judged: Mapping[str, Sequence[JudgedSet]]) -> None:
    for sets in judged.values():
        lettered = [one for one in sets if isinstance(one, LetteredSet)]
        without = next((one.task.name for one in lettered if one.option_set.labels is None), None)
        if without:
            raise RecipeError(f"{without} has no labels; a suite reports accuracy on all of its sets")


suite_kinds["selection"] = SuiteKind(
    "selection", SelectionSuite, SelectionPlan, SelectionPages(), folder=Path(__file__).parent
)
