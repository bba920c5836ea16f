"""One run of a selection suite: its folder open, its rounds one after the other, what they found written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.evaluation.row import CostRow, Row
from smelt.evaluation.run_folder import RunFolder
from smelt.files.atomic import write_json
from smelt.files.json_reader import read_json
from smelt.suites.collaboration.score import digest
from smelt.suites.failures import complain
from smelt.suites.options import Options
from smelt.suites.rounds import settled
from smelt.suites.selection.answers import Answers
from smelt.suites.selection.describe import describe
from smelt.suites.selection.member import Member, alone, group
from smelt.suites.selection.plan import JUDGED, Course, Wanted, courses, growing, subsets
from smelt.suites.selection.session import desk_of
from smelt.suites.selection.steps import SOUP, Step, Steps, ask_words
from smelt.suites.selection.suite import KINDS, SelectionSuite

__all__ = ["Run"]


class Run:
    """Steps over an open folder."""

    def __init__(self, suite: SelectionSuite, out: Path, entries: list[str], options: Options, force: bool):
        from smelt.evaluation.study import content_of
        from smelt.tasks.registry import find_tasks

        self.suite, self.options, self.entries = suite, options, entries
        recipe = suite.recipe(suite.average)
        models = {**suite.pool.models, **({"joint": suite.joint} if suite.joint else {})}
        everyone = recipe.model_copy(update={"pool": recipe.pool.model_copy(update={"models": models})})
        sets = find_tasks([name for kind in KINDS for name in suite.sets(kind)])
        content = content_of(everyone, None, sets)
        words = {
            **suite.words(),
            "limit": options.limit or suite.limit,
            "dtype": options.dtype,
            "device": options.device.split(":")[0],
            "entries": {name: digest(suite.recipe(name).dump()) for name in suite.entries},
            **content,
        }
        self.folder = RunFolder(out, words, force=force)
        try:
            ask = ask_words(suite, options, self.folder)
            self.desk = desk_of(ask)
            _check_labels(self.desk.plain)
            self.steps = Steps(suite, content["models"], ask, self.folder)
        except BaseException:
            self.folder.close()
            raise
        self.answers = Answers(self.desk)
        self.every = tuple(suite.pool.models)
        self.failures: dict[str, SmeltError] = {}

    def everything(self) -> None:
        """Round after round: what a later one is about follows from the answers of those before."""
        self._round(self.steps.singles())
        if self.failures:
            complain(self.failures)
        found = self._courses()
        self._round(self.steps.merged(growing(self.suite, found, self.steps.kinds)))
        if not self.failures:
            self._round(self.steps.merged(self._entries(self._chosen(found[0]))))
            self._soup()
            self._describe(found)

    def _courses(self) -> list[Course]:
        identity = {name: self.steps.identity(alone(name)) for name in self.every}
        uncertainties = {
            how: {name: self.answers.uncertainty(one, how)["mean"] for name, one in identity.items()}
            for how in self.suite.perturbations
        }
        return courses(self.suite, uncertainties, {name: self._accuracy(alone(name)) for name in self.every})

    def _chosen(self, course: Course) -> tuple[str, ...]:
        """The group that everything else is compared with."""
        members = course.steps(self.suite.average, self.every)
        values = [self.answers.uncertainty(self.steps.identity(m), self.suite.guide)["mean"] for m in members]
        return members[course.chosen(values)[self.suite.choose] - 1].names

    def _entries(self, chosen: Sequence[str]) -> Wanted:
        """Every entry on the chosen group, on random groups of its size, and on all models."""
        groups = (chosen, *subsets(self.suite, len(chosen)), self.every)
        return {group(entry, names, self.every): (JUDGED, ()) for entry in self.entries for names in groups}

    def _soup(self) -> None:
        if not self.suite.validation:
            return
        step, asked = self.steps.soup(), digest(self.steps.soup().job.arguments)
        known = self._read(SOUP)
        if known is None or known.get("asked") != asked:
            for _, done in settled([step], lambda one: False, self.options):
                assert done is not None
                if done.error is not None:
                    self._failed(step, done.error)
                    return
                known = {**done.result, "asked": asked}
                self._write(SOUP, known)
        assert known is not None
        self._round(self.steps.merged({group(self.suite.average, known["models"], self.every): (self.steps.kinds, ())}))

    def _describe(self, found: Sequence[Course]) -> None:
        chosen, soup = self._chosen(found[0]), self._read(SOUP)
        entries = [name for name in self.suite.entries if name in self.entries or self._merged_all(name)]
        self.steps.write_choices()
        content = describe(self.suite, self.steps, self.answers, found, chosen, entries, soup)
        self._write("selection", content)

    def _merged_all(self, entry: str) -> bool:
        """Whether an entry was measured by an earlier run."""
        return self.answers.has(self.steps.identity(group(entry, self.every, self.every)), JUDGED, [])

    def _round(self, steps: Sequence[Step]) -> None:
        for number, (step, done) in enumerate(settled(steps, self._there, self.options), 1):
            place = f"[{number:3}/{len(steps)}]"
            if done is not None and done.error is not None:
                self._failed(step, done.error, place)
                continue
            if done is not None:
                self.folder.add(self._new(done.result))
            how = "there already" if done is None else f"{done.seconds:.1f} s"
            assert step.member is not None
            self.options.tell(f"{place} {step.label}: {100 * self._accuracy(step.member):5.1f} % held-in ({how})")

    def _failed(self, step: Step, error: SmeltError, place: str = "") -> None:
        self.failures[step.label] = error
        self.options.tell(f"{place} {step.label}: FAILED, {str(error).splitlines()[0]}".strip())

    def _there(self, step: Step) -> bool:
        member = step.member
        assert member is not None
        rows = {row.task for row in self.folder.rows if _of(row, member) and isinstance(row, Row)}
        wanted = {one.task.name for kind in step.kinds for one in self.desk.plain[kind].option_sets.sets}
        return wanted <= rows and self.answers.has(self.steps.identity(member), step.kinds, step.perturbations)

    def _new(self, contents: Sequence[Mapping[str, Any]]) -> list[Row | CostRow]:
        """Rows that are not there: a step that is completed tells of all its sets again."""
        known = {_cell(row) for row in self.folder.rows}
        rows = [(Row if one["kind"] == "accuracy" else CostRow).model_validate(one) for one in contents]
        return [row for row in rows if _cell(row) not in known]

    def _accuracy(self, member: Member) -> float:
        return self.answers.accuracy(self.steps.identity(member), ["held_in"])

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content = read_json(self.folder.path / "analyses" / f"{name}.json")
        except CorruptFile:
            return None
        return content if isinstance(content, dict) else None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """There whole or not at all."""
        write_json(self.folder.path / "analyses" / f"{name}.json", content)


def _check_labels(plain: Mapping[str, Any]) -> None:
    for measure in plain.values():
        without = next((one.task.name for one in measure.option_sets.sets if one.labels is None), None)
        if without:
            raise RecipeError(f"{without} has no labels; a suite reports accuracy on all of its sets")


def _of(row: Row | CostRow, member: Member) -> bool:
    return (row.entry, row.part) == (member.entry, member.part)


def _cell(row: Row | CostRow) -> tuple[Any, ...]:
    """What a row is the number of."""
    return ("cost", row.entry, row.part) if isinstance(row, CostRow) else (row.entry, row.part, row.task)
