"""A selection suite as tables, in the paper's order, each beside the paper's own averages where it has some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell, printed_cell
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import plural
from smelt.select.subsets import spread
from smelt.suites.selection.paper import uqmerge
from smelt.suites.selection.report.analyses import KINDS, SelectionAnalysis, SelectionTrace
from smelt.suites.selection.report.table_shapes import Scores, Shown, beside_paper, over_means, over_sets

__all__ = ["choice_text", "entry_label", "selection_sheets"]

_JUDGED = ("held_in", "held_out")
_HEADS = ("Held-in", "Held-out")


def selection_sheets(rows: Iterable[Row], selection: SelectionAnalysis) -> list[Sheet]:
    """Models, random groups, all models, guidance, steps, perturbations, methods, and harm."""
    tables = _Tables(Scores(rows, selection), selection)
    found = [tables.models(), tables.random(), tables.all(), tables.guidance(), tables.steps(), tables.perturbations()]
    return [sheet for sheet in [*found, tables.methods(), tables.harm()] if sheet is not None]


def entry_label(selection: SelectionAnalysis, entry: str) -> str:
    """`TIES, standard`."""
    words = selection.entries[entry]
    return ", ".join(filter(None, [words["label"], words["setting"]]))


def choice_text(choose: str) -> str:
    """How a step is chosen, in words."""
    return {"global_min": "the lowest uncertainty", "first_local_min": "the first local minimum"}[choose]


class _Tables:
    def __init__(self, scores: Scores, selection: SelectionAnalysis):
        self.scores, self.selection, self.paper = scores, selection, uqmerge()
        size, how = len(selection.chosen_models), choice_text(selection.choose)
        own = Shown(f"UQ-Merge ({plural(size, 'model')})", selection.chosen, note=how, setting=False)
        self.own = own.by(selection.budgets["uncertainty"])
        self.joint = Shown("Trained on everything", selection.joint, "reference")

    def models(self) -> Sheet:
        """Every model as it is, what was chosen, and the references."""
        chosen, known = self.selection, self.selection.singles[self.selection.guide]

        def note(who: str | None) -> str:
            return f"uncertainty {known[who].text}" if who in known else ""

        names = f"{', '.join(chosen.own.added[: len(chosen.chosen_models)])}; {self.own.note}"
        lines = [
            Shown("Before fine-tuning", chosen.base, "reference", note(chosen.base)),
            self.joint._replace(note=note(chosen.joint)),
            Shown("Average of all", chosen.all, setting=False),
            *self._without_harm(),
            self.own._replace(note=names),
        ]
        if chosen.soup:
            soup = Shown(
                "Greedy soup", chosen.soup["who"], note=plural(len(chosen.soup["models"]), "model"), setting=False
            )
            lines.append(soup.by(chosen.budgets["soup"]))
        lines += [Shown(name, f"expert-{name}", "single", note(f"expert-{name}")) for name in chosen.models]
        about = "Uncertainty: in nats on the held-in sets, without labels. Validation: the val split of its sets."
        title = "Models and what is made of them"
        return over_sets(self.scores, "models", title, about, lines, tuple(chosen.sets), headings=True)

    def random(self) -> Sheet:
        """The paper's Tables 1 and 13."""
        groups, chosen = self.selection.subsets, len(self.selection.chosen_models)
        other = f"{plural(chosen, 'model')} chosen, of which there is no random group to merge: the suite's own size. "
        about = (
            f"{other if len(groups[0]) != chosen else ''}Every method merges the same "
            f"{plural(len(groups), 'random group')} of {len(groups[0])} models; the mean over the groups. SD: of the "
            f"groups' averages; SE = SD / √{len(groups)}. Default: mergekit's settings (density 1, weight 1); "
            f"standard: those of the methods' authors. {self.paper.notes['random']}"
        )
        return self._by_entry(
            "random", "Random groups (the paper's Tables 1 and 13)", about, "subsets", self.paper.random
        )

    def all(self) -> Sheet:
        """The paper's Table 2."""
        title = f"All {len(self.selection.models)} models (the paper's Table 2)"
        about = f"UQ-Merge beside merges of all. {self.paper.notes['all']}"
        return self._by_entry("all", title, about, "all", self.paper.all)

    def guidance(self) -> Sheet:
        """The paper's Table 3."""
        found = [one for one in self.selection.traces if one.perturbation in (None, self.selection.guide)]
        about = (
            "What guides the order and the choice; accuracy is that on the held-in sets, whose labels it looks at. "
            f"Chosen by {choice_text(self.selection.choose)}."
        )
        labels = [f"{one.guide.capitalize()}, {one.order}" for one in found]
        sheet = self._traces("guidance", "Guidance (the paper's Table 3)", about, found, labels)
        paper = [printed_cell(self.paper.guidance.get(f"{one.guide}-{one.order}")) for one in found]
        return beside_paper(sheet, ("Held-out",), [[one] for one in paper])

    def perturbations(self) -> Sheet | None:
        """The paper's Table 5."""
        own = self.selection.own
        others = [one for one in self.selection.traces if one.order == own.order]
        found = [own, *(one for one in others if one.perturbation not in (None, own.perturbation))]
        if len(found) < 2:
            return None
        names = [one.perturbation or "" for one in found]
        about = f"What is perturbed when uncertainty is measured. {self.paper.notes['perturbations']}"
        labels = [self.selection.perturbations[name] for name in names]
        sheet = self._traces("perturbations", "Perturbations (the paper's Table 5)", about, found, labels)
        paper = self.paper.perturbations
        return beside_paper(sheet, _HEADS, [_printed(paper.get(name)) for name in names])

    def steps(self) -> Sheet:
        """The paper's Tables 4 and 10 to 12."""
        own, steps, budget = self.selection.own, self.paper.steps, self.selection.budgets["uncertainty"]
        lines = []
        for number, (who, added) in enumerate(zip(own.who, own.added, strict=True), 1):
            marks = [choice_text(choice) for choice, step in own.chosen.items() if step == number]
            note = "; ".join([f"uncertainty {own.uncertainty[number - 1].text}", *marks])
            label = f"{number}: {'+ ' if number > 1 else ''}{added}"
            lines.append(Shown(label, who, budget.group, note, setting=False))
        kinds = [kind for kind in ("held_in", "validation", "held_out") if kind in self.selection.sets]
        title = "Step by step (the paper's Tables 4 and 10 to 12)"
        about = (
            f"Models join by descending uncertainty ({budget.text}); the average of all so far. "
            f"{self.paper.notes['steps']}"
        )
        sheet = over_sets(self.scores, "steps", title, about, lines, kinds, headings=False)
        if len(lines) != len(steps["held_out"]):
            return sheet
        cells = [_printed([steps[kind][at] for kind in ("validation", "held_out")]) for at in range(len(lines))]
        return beside_paper(sheet, ("Validation", "Held-out"), cells, "the same number of its own models")

    def methods(self) -> Sheet:
        """The paper's Table 6."""
        lines, cells, tasks = [], [], self.selection.judged
        for entry, on in self.selection.on.items():
            line = self.scores.line(entry_label(self.selection, entry), on["chosen"], tasks, entry=entry)
            lines.append(self.scores.summary(line, [(on[where], tasks) for where in ("chosen", "all")]))
            cells.append(_printed(self.paper.methods.get(str(self.selection.entries[entry]["paper"]))))
        heads = (f"Chosen {len(self.selection.chosen_models)}", f"All {len(self.selection.models)}")
        about = (
            f"The mean over all held-in and held-out sets. The models of the first column were "
            f"{self.selection.budgets['uncertainty'].text}, for every method alike. {self.paper.notes['methods']}"
        )
        title = "Merge methods on the same models (the paper's Table 6)"
        return beside_paper(over_means("methods", title, about, heads, lines), ("Chosen 7", "All 10"), cells)

    def harm(self) -> Sheet | None:
        """Whom to leave out of the average of all."""
        found = self.selection.comparisons("harm")
        if not found:
            return None
        wanted = [Shown("All", self.selection.all, "reference")]
        for one in sorted(found, key=lambda one: -one.difference):
            said = "hurts" if one.low > 0 else "helps" if one.high < 0 else "not shown"
            note = f"{100 * one.difference:+.2f} points ({100 * one.low:+.2f} to {100 * one.high:+.2f}): {said}"
            wanted.append(Shown(f"Without {one.name}", one.ours[0], note=note))
        about = (
            "The average of all models beside the averages of all but one. Points: how much better it is without the "
            "model, over held-in and held-out sets, with the 95 % interval of the paired difference over questions; "
            "nothing is corrected for the number of comparisons."
        )
        kinds = [*(self.selection.sets[kind] for kind in _JUDGED), self.selection.judged]
        lines = [self._means(one, kinds) for one in wanted]
        return over_means("harm", "Whom the average of all is better without", about, (*_HEADS, "Both"), lines)

    def _by_entry(self, key: str, title: str, about: str, where: str, paper: Mapping[str, tuple[float, ...]]) -> Sheet:
        """Every entry on some models over the sets, below UQ-Merge and the joint model."""
        lines, cells = [self.own], [_printed(self.paper.chosen)]
        if self.selection.joint:
            lines, cells = [*lines, self.joint], [*cells, _printed(self.paper.joint)]
        for entry, on in self.selection.on.items():
            note = self._spread(on[where]) if where == "subsets" else ""
            lines.append(Shown(entry_label(self.selection, entry), on[where], note=note))
            cells.append(_printed(paper.get(str(self.selection.entries[entry]["paper"]))))
        return beside_paper(over_sets(self.scores, key, title, about, lines, _JUDGED, headings=False), _HEADS, cells)

    def _traces(
        self, key: str, title: str, about: str, found: Sequence[SelectionTrace], labels: Sequence[str]
    ) -> Sheet:
        lines = []
        for label, one in zip(labels, found, strict=True):
            step = one.chosen[self.selection.choose]
            shown = Shown(label, one.who[step - 1], note=plural(step, "model")).by(self.selection.budgets[one.guide])
            lines.append(replace(self._means(shown, [self.selection.sets[kind] for kind in _JUDGED]), entry=one.name))
        return over_means(key, title, about, _HEADS, lines)

    def _without_harm(self) -> list[Shown]:
        """The average of those that were not made to harm, which no choice knows."""
        found = [one for one in self.selection.comparisons("reference") if one.name == "good"]
        bad = self.selection.harmful
        names = f"without {', '.join(bad.models)}, which were made to harm" if bad else ""
        return [Shown("Average of the others", one.theirs[0], "reference", names) for one in found[:1]]

    def _means(self, one: Shown, kinds: Sequence[Sequence[str]]) -> TableLine:
        """A model over means of sets."""
        assert one.who is not None
        line = self.scores.line(one.label, one.who, self.selection.judged, one.group, note=one.note)
        return self.scores.summary(replace(line, setting={}), [(one.who, tasks) for tasks in kinds])

    def _spread(self, many: Sequence[str]) -> str:
        """`SE 1.20, SD 2.08 held-in; SE ...`."""
        said = []
        for kind in _JUDGED:
            cells = [self.scores.mean(who, self.selection.sets[kind]) for who in many]
            numbers = spread([cell.accuracy for cell in cells if cell]) if any(cells) else None
            if numbers and numbers.sd is not None and numbers.standard_error is not None:
                said.append(f"SE {100 * numbers.standard_error:.2f}, SD {100 * numbers.sd:.2f} {KINDS[kind].lower()}")
        return "; ".join(said)


def _printed(numbers: Sequence[float] | None) -> list[Cell | None]:
    """Two numbers of the paper, where it has them."""
    return [printed_cell(number) for number in numbers or (None, None)]
