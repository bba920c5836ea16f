"""The paper's four research questions, answered with this run's own numbers, whichever way they fall.

A difference counts as shown where its 95 % interval, paired over the same questions, leaves out zero; questions about
one picture count as one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.words import plural
from smelt.suites.selection.report.analyses import Compared, SelectionAnalysis
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import choice_text, entry_label

__all__ = ["Answer", "Correlation", "apart", "correlations", "research_questions"]

_ORDERS = 20_000
_OTHERS = {
    "subsets": "random groups",
    "all": "the average of all",
    "good": "the average without the experts that were made to harm",
    "soup": "the greedy soup",
    "best_single": "the best single model by held-in labels",
}
_SETS = {"held_in": "held-in sets", "held_out": "held-out sets", "both": "all sets"}


@dataclass(frozen=True)
class Answer:
    """A question of the paper, its own answer, and ours in sentences."""

    question: str
    paper: str
    ours: tuple[str, ...]


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho of uncertainty and accuracy over the steps, and the share of random orders as far from 0."""

    kind: str
    rho: float
    chance: float


def research_questions(rows: Iterable[Row], selection: SelectionAnalysis) -> list[Answer]:
    """The four of them; what was not measured is not said."""
    scores = Scores(rows, selection)
    return [
        Answer(
            "RQ1: Is uncertainty a better guide than accuracy, and in which order?",
            "Yes; by descending uncertainty.",
            tuple(_guidance(selection)),
        ),
        Answer(
            "RQ2: Which models to merge?",
            "Those whose merge has the lowest uncertainty.",
            tuple(_choice(scores, selection)),
        ),
        Answer(
            "RQ3: Which perturbation?",
            "That of the input is crucial; the model's adds little.",
            tuple(_perturbation(selection)),
        ),
        Answer("RQ4: How to merge the chosen models?", "By the plain average.", tuple(_methods(selection))),
    ]


def correlations(scores: Scores, selection: SelectionAnalysis) -> list[Correlation]:
    """Over the steps of UQ-Merge's own trace, for every kind of sets. Below 0: less uncertain merges are better."""
    import numpy as np

    from smelt.ops.rank_correlation import spearman

    values, found = np.array(selection.own.values), []
    for kind, tasks in selection.sets.items():
        cells = [scores.mean(who, tasks) for who in selection.own.who]
        if not all(cells):
            continue
        right = np.array([cell.accuracy for cell in cells if cell])
        rho = spearman(values, right)
        if rho is None:
            continue
        first, second = (_ranks(one) for one in (values, right))
        shuffled = np.random.default_rng(0).permuted(np.tile(second, (_ORDERS, 1)), axis=1)
        others = shuffled @ first / float(np.sqrt((first @ first) * (second @ second)))
        found.append(Correlation(kind, rho, float(np.mean(np.abs(others) >= abs(rho) - 1e-9))))
    return found


def _ranks(values: Any) -> Any:
    """Places around 0; equal values share the mean of theirs."""
    places = (values[:, None] > values).sum(axis=1) + ((values[:, None] == values).sum(axis=1) - 1) / 2
    return places - places.mean()


def apart(one: Compared) -> str:
    """`+1.2 points on held-out sets (95 % interval +0.3 to +2.1)`, and whether that is shown."""
    if one.same:
        return f"no difference on {_SETS[one.sets]}: it is the same model"
    ends = f"95 % interval {100 * one.low:+.2f} to {100 * one.high:+.2f}"
    return f"{100 * one.difference:+.2f} points on {_SETS[one.sets]} ({ends}{'' if one.sure else '; not shown'})"


def _guidance(selection: SelectionAnalysis) -> list[str]:
    own = selection.own
    said = [f"Descending uncertainty chooses {plural(own.chosen[selection.choose], 'model')}."]
    for one in selection.traces[1:]:
        pairs = [pair for pair in selection.comparisons("guidance") if pair.name == one.name]
        if pairs:
            size = plural(one.chosen[selection.choose], "model")
            said.append(f"Against {one.guide}, {one.order} ({size}), it has {'; '.join(map(apart, pairs))}.")
    return [*said, _verdict(selection.comparisons("guidance", "held_out"), "descending uncertainty")]


def _choice(scores: Scores, selection: SelectionAnalysis) -> list[str]:
    own = selection.own
    first, lowest = own.chosen["first_local_min"], own.chosen["global_min"]
    size = plural(first, "model") if first == lowest else f"{first} (first local minimum) or {lowest} (lowest of all)"
    said = [f"Of {len(own.who)} steps the uncertainty chooses {size}.", *_rises(selection)]
    pairs = [] if first == lowest else selection.comparisons("choice")
    if pairs:
        said.append(f"The first local minimum against the lowest of all: {'; '.join(map(apart, pairs))}.")
    for one in selection.comparisons("lowest"):
        step = own.who.index(one.theirs[0]) + 1
        least = f"; the least uncertain one, {lowest}, differs from it by {apart(one)}"
        least = ", which is the least uncertain one too" if one.same else least
        said.append(f"The best step on {_SETS[one.sets]}, in hindsight, is {step}{least}.")
    for found in correlations(scores, selection):
        few = "not shown" if found.chance >= 0.05 else "shown, though steps share models"
        said.append(
            f"Uncertainty and accuracy over the steps, {found.kind.replace('_', '-')} sets: Spearman's rho "
            f"{found.rho:+.2f} (−1: the less uncertain the better; {100 * found.chance:.1f} % of random orders are as "
            f"far from 0: {few})."
        )
    other = next(rule for rule in own.chosen if rule != selection.choose)
    for about, whose in (("reference", "UQ-Merge"), (f"reference-{other}", f"UQ-Merge by {choice_text(other)}")):
        for name, words in _OTHERS.items():
            pairs = [one for one in selection.comparisons(about) if one.name == name]
            if pairs:
                size = f" of {_size(selection, pairs[0])}" if name == "subsets" else ""
                said.append(f"{whose} against {words}{size}: {'; '.join(map(apart, pairs))}.")
    return said


def _rises(selection: SelectionAnalysis) -> list[str]:
    """Whether the uncertainty of the chosen step is surely below the next one's, and surely above the lowest."""
    said = []
    for one in selection.uncertainty_compared:
        upper, lower = (selection.own.who.index(side[0]) + 1 for side in (one.ours, one.theirs))
        words, what = f"From step {lower}, the lowest, to {upper}, the chosen one", "that it is higher"
        if one.about == "next":
            words, what = f"From step {lower}, the chosen one, to {upper}", "the rise"
        ends = f"95 % interval, paired over questions, {one.low:+.4f} to {one.high:+.4f}"
        shown = "shown" if one.low > 0 else "not shown"
        said.append(f"{words}, the uncertainty changes by {one.difference:+.4f} nats ({ends}): {what} is {shown}.")
    return said


def _size(selection: SelectionAnalysis, one: Compared) -> int:
    """How many models the random groups of a comparison have."""
    other = next((size for size, some in selection.random.items() if set(one.theirs) <= set(some)), None)
    return len(selection.subsets[0]) if one.about == "reference" or other is None else other


def _perturbation(selection: SelectionAnalysis) -> list[str]:
    pairs, said = selection.comparisons("perturbation"), []
    name = f"perturbing {selection.perturbations[selection.guide].lower()}"
    for trace in selection.traces:
        own = [one for one in pairs if one.name == trace.name]
        if own and trace.perturbation:
            label, step = selection.perturbations[trace.perturbation], trace.chosen[selection.choose]
            said.append(
                f"{label} chooses {plural(step, 'model')}; against it, {name} has {'; '.join(map(apart, own))}."
            )
    if not said:
        return ["Only one perturbation was measured."]
    return [*said, _verdict([one for one in pairs if one.sets == "held_out"], name)]


def _methods(selection: SelectionAnalysis) -> list[str]:
    said = []
    for where, words in (("chosen", "the chosen models"), ("all", "all models")):
        pairs = selection.comparisons(f"method-{where}")
        if not pairs:
            continue
        label = selection.entries[selection.average]["label"]
        better = [one for one in pairs if one.high < 0]
        worse = [one for one in pairs if one.low > 0]
        level = [one for one in pairs if not one.sure]
        said.append(
            f"On {words}, {label} is surely above {_listed(worse, selection)}, surely below "
            f"{_listed(better, selection)}; no difference is shown to {_listed(level, selection)} (points by which it "
            "is above, all sets)."
        )
    return said or ["No other method was measured on the same models."]


def _listed(pairs: Sequence[Compared], selection: SelectionAnalysis) -> str:
    names = [f"{entry_label(selection, one.name)} ({100 * one.difference:+.2f})" for one in pairs]
    return ", ".join(names) if names else "none"


def _verdict(pairs: Sequence[Compared], ours: str) -> str:
    if not pairs:
        return "Answer: not measured."
    above, below = sum(one.low > 0 for one in pairs), sum(one.high < 0 for one in pairs)
    if all(one.same for one in pairs):
        return f"Answer: {ours} chooses the same models as the others, so that nothing is shown."
    return (
        f"Answer, by held-out sets and of {plural(len(pairs), 'other')}: {ours} is surely better than {above} and "
        f"surely worse than {below}; for {len(pairs) - above - below} no difference is shown."
    )
