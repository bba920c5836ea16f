"""From what there is to a method: the guideline says which are possible, budgets rule some out, evidence orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.advice.evidence import Witness, mean, ours, witnesses
from smelt.advice.memory import bytes_needed
from smelt.advice.rules import Rule, rules
from smelt.advice.situation import Situation
from smelt.suites.language.published import mergebench

__all__ = ["Candidate", "Choice", "choose"]


@dataclass(frozen=True)
class Candidate:
    """A method that can be run. `settings` are as many as there is time for."""

    entry: str
    rule: Rule
    settings: int
    score: float | None
    """The mean of similar base models, in percent."""
    tuned: bool = True
    """False where there is no data to choose its setting on."""


@dataclass(frozen=True)
class Choice:
    """The candidates, best first, and what was ruled out."""

    candidates: tuple[Candidate, ...]
    witnesses: tuple[Witness, ...]
    avoided: dict[str, str]


def choose(situation: Situation) -> Choice:
    """Every method that fits what there is, the likely best first; the plain average always does."""
    similar = witnesses(situation.size, situation.kind)
    found, avoided = [], {}
    for entry, rule in rules().methods.items():
        if rule.needs and not set(rule.needs) <= situation.has:
            continue
        against = _too_large(entry, situation)
        settings = rule.settings if rule.chosen_by in (None, *situation.has) else 0
        against = against or _too_long(rule, settings, situation)
        if against:
            avoided[entry] = against
            continue
        tuned = rule.chosen_by is None or rule.chosen_by in situation.has
        found.append(Candidate(entry, rule, _affordable(settings, situation), mean(entry, similar), tuned))
    order = list(rules().methods)
    found.sort(key=lambda one: (not one.rule.needs, not one.tuned, -(one.score or 0.0), order.index(one.entry)))
    return Choice(tuple(found), tuple(similar), avoided | _not_recommended(situation))


def trial_minutes(situation: Situation) -> float | None:
    """What trying one setting takes: as was said, or as our own run took, in proportion to the parameters."""
    if situation.validation_minutes is not None:
        return situation.validation_minutes
    own = ours()
    if own is None or own.trial_seconds is None or situation.size is None:
        return None
    return own.trial_seconds / 60 * situation.size / own.witness.size


def _too_large(entry: str, situation: Situation) -> str:
    needed = bytes_needed(entry, situation)
    if situation.memory is None or needed <= situation.memory:
        return ""
    return f"looking at data needs about {needed / 1e9:.3g} GB of memory, there are {situation.memory / 1e9:.3g} GB"


def _too_long(rule: Rule, settings: int, situation: Situation) -> str:
    """Where not even two settings can be tried in the time, there is nothing to choose from."""
    minutes = trial_minutes(situation)
    if not settings or situation.minutes is None or minutes is None or situation.minutes >= 2 * minutes:
        return ""
    return f"trying two of its settings takes {2 * minutes:.3g} minutes, there are {situation.minutes:g}"


def _affordable(settings: int, situation: Situation) -> int:
    minutes = trial_minutes(situation)
    if not settings or situation.minutes is None or minutes is None:
        return settings
    return min(settings, int(situation.minutes / minutes))


def _not_recommended(situation: Situation) -> dict[str, str]:
    """Methods that the guideline passes over, with the paper's numbers, where there is the data for them."""
    paper = mergebench()
    wanted = ["ties", "dare", "consensus"] if "validation" in situation.has else []
    wanted += ["fisher"] if "training" in situation.has else []
    words = rules().avoided
    return {e: words[e].format(trials=paper.trials[e], overall=paper.multitask.overall[e]) for e in wanted}


def names_of(entries: Sequence[str]) -> list[str]:
    """As the paper calls them."""
    return [mergebench().methods[entry] for entry in entries]
