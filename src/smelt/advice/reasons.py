"""The advice in words: why this method, and how much of the experts to expect. Its numbers are the evidence's."""

from __future__ import annotations

from smelt.advice.choose import Candidate, Choice, trial_minutes
from smelt.advice.evidence import ours
from smelt.advice.rules import rules
from smelt.advice.situation import Situation, article
from smelt.suites.language.published import mergebench

__all__ = ["POOR", "expectation", "reasons"]

POOR = 60.0
"""Percent of the experts under which a merge is hardly worth having: one expert alone has about 50 in our own run."""
_NOTHING_FITS = "No method that uses this data fits the time or the memory; the plain average needs neither."


def reasons(first: Candidate, second: Candidate | None, choice: Choice, situation: Situation) -> list[str]:
    """Two to four sentences."""
    said = [_NOTHING_FITS if situation.has and not first.rule.needs else first.rule.why]
    if first.score is not None:
        text = f"{_where(choice, situation)} it keeps {first.score:.1f} % of the experts on average"
        if second is not None and second.score is not None:
            text += f", {second.rule.name} {second.score:.1f} %"
        said.append(f"{text}.")
    said += filter(None, [_although(first, second), _settings(first, situation), _untuned(first), _without(situation)])
    return said


def expectation(first: Candidate, choice: Choice, situation: Situation) -> str:
    """The range of that method on similar bases, and a word about why."""
    scores = [one.scores[first.entry] for one in choice.witnesses if first.entry in one.scores]
    if not scores:
        return _no_row(situation)
    low, high = min(scores), max(scores)
    ends = f"{low:.1f} %" if low == high else f"{low:.1f} to {high:.1f} %"
    said = f"Expect about {ends} of the experts' performance"
    if situation.kind == "pretrained" and situation.small:
        return f"{said}: merging works worse on small pretrained bases, whose specialists lie further apart."
    if high < POOR:
        return f"{said}: so little is kept that one specialist, or training on all domains together, may serve better."
    if situation.kind == "instruct":
        return f"{said}: specialists of an instruction-tuned base stay close to each other."
    return f"{said}, as on those bases; stronger bases (larger, instruction-tuned) give more."


def _no_row(situation: Situation) -> str:
    """There is the guideline, but no number; the row that is nearest in size is named as what it is."""
    own = ours()
    if own is None or situation.kind == own.witness.kind:
        return "There is no row of a similar base model, so no number to expect."
    return (
        f"There is no row of a similar base model, so no number to expect: the nearest in size, {own.witness.base}, is "
        f"{article(own.witness.kind)} base, and this is {article(situation.kind)} one."
    )


def _where(choice: Choice, situation: Situation) -> str:
    if situation.kind is None and situation.size is None:
        return f"On the paper's {len(choice.witnesses)} bases"
    return f"On similar bases ({', '.join(one.base for one in choice.witnesses)})"


def _although(first: Candidate, second: Candidate | None) -> str:
    """Why the choice is not the one with the higher number, where that is so."""
    if second is None or first.score is None or second.score is None or second.score <= first.score:
        return ""
    name = second.rule.name
    if first.tuned and not second.tuned:
        return (
            f"{name} comes second although its number is higher: that is of a setting chosen on validation data, "
            "and there is none here."
        )
    return f"{name} comes second although its number is higher: the guideline prefers what uses the data that there is."


def _settings(first: Candidate, situation: Situation) -> str:
    if not first.settings:
        return ""
    minutes, whole = trial_minutes(situation), first.rule.settings
    tried = f"{first.settings} of its {whole} settings" if first.settings < whole else f"{whole} settings"
    heavy = mergebench().trials
    text = f"Choosing tries {tried}, each one merge and one validation"
    if minutes is not None:
        text += f": about {first.settings * minutes:.3g} minutes"
    return f"{text}; TIES and DARE would try {heavy['ties']}."


def _untuned(first: Candidate) -> str:
    if first.tuned:
        return ""
    return "Without validation data its setting is a guess, and the paper finds that it matters much: check the result."


def _without(situation: Situation) -> str:
    """What would make the advice better."""
    if situation.has:
        return ""
    best = max(rules().methods, key=lambda entry: mergebench().multitask.overall[entry])
    overall = mergebench().multitask.overall
    name = rules().methods[best].name
    return (
        f"With data more is kept: over all bases of the paper {name} has {overall[best]:.1f} %, the average "
        f"{overall['average']:.1f} %."
    )
