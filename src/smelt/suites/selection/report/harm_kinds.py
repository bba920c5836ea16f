"""Which ways to choose leave out the experts that were made to harm, in runs of one suite with several kinds of harm.

A setting is what is perturbed, the order in which groups grow, and the rule by which a step is taken. In: runs whose
suite says who harms. Out: for every run and setting what is left out and what that is worth; what the rule of `RULE`
makes of it; sentences that hold whatever came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.errors import CorruptFile
from smelt.reporting.tables.cells import Cell
from smelt.reporting.words import percent, plural
from smelt.select.uq import CHOOSING
from smelt.suites.selection.report.analyses import KnownHarm, SelectionAnalysis
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import choice_text

__all__ = [
    "RULE",
    "HarmRun",
    "Outcome",
    "Recommendation",
    "Setting",
    "default_setting",
    "harm_run",
    "harm_sentences",
    "recommended",
]

RULE = (
    "A setting finds a kind of harm where its group leaves out all experts that were made to harm and keeps at least "
    "half of the others. The default stays unless another setting finds every kind that the default finds, and more; "
    "of several the one that finds most kinds, then the one that keeps most of the others, then the first of the "
    "table. No label and no accuracy enters: who harms is known from how the experts were made."
)
"""How a default of `smelt select uq` would be changed; written before the second kind of harm was measured."""


@dataclass(frozen=True)
class Setting:
    """One way to choose by uncertainty."""

    perturbation: str
    """As the suite's table of perturbations calls it: `Input only`."""
    order: str
    choose: str

    @property
    def text(self) -> str:
        return f"{self.perturbation.lower()}, {self.order}, {choice_text(self.choose)}"


@dataclass(frozen=True)
class Outcome:
    """What a setting chose in one run."""

    setting: Setting
    left_out: tuple[str, ...]
    """In the pool's order."""
    harmful: tuple[str, ...]
    """Those of them that were made to harm."""
    finds: bool
    """As `RULE` says."""
    kept: int
    """How many of the others the group keeps."""
    accuracy: dict[str, Cell | None]
    """The mean over the held-in and the held-out sets."""


@dataclass(frozen=True)
class HarmRun:
    """A run with one kind of harm."""

    harm: KnownHarm
    others: int
    """How many experts were not made to harm."""
    places: tuple[int, ...]
    """Where the harmful ones stand when all are sorted by their uncertainty, the most uncertain first."""
    uncertainty: dict[str, float]
    """Of every expert by itself, under the perturbation that guides, in nats."""
    outcomes: tuple[Outcome, ...]
    references: dict[str, dict[str, Cell | None]]
    """Accuracies by what they are of: the average of all, that without harm, the greedy soup, the best single model."""

    def outcome(self, setting: Setting) -> Outcome | None:
        """What a setting chose, where it was measured."""
        return next((one for one in self.outcomes if one.setting == setting), None)


@dataclass(frozen=True)
class Recommendation:
    """What the rule makes of the runs."""

    default: Setting
    best: Setting
    """The default where it stays."""

    of_all: tuple[Setting, ...]
    """Those that find every kind."""

    @property
    def stays(self) -> bool:
        return self.default == self.best


def harm_run(scores: Scores, selection: SelectionAnalysis) -> HarmRun:
    """A run's settings, in the order of its perturbations; a run that does not say who harms is refused."""
    if selection.harmful is None:
        raise CorruptFile("selection.json: does not say which experts were made to harm; let the suite run again")
    bad = selection.harmful.models
    others = [name for name in selection.models if name not in bad]
    known = {name: selection.singles[selection.guide][f"expert-{name}"].mean for name in selection.models}
    ranks = sorted(known, key=lambda name: -known[name])
    good = next((one.theirs[0] for one in selection.comparisons("reference") if one.name == "good"), None)
    whose = {"average of all": selection.all, "average without the harmful ones": good or _group(selection, others)}
    whose |= {"greedy soup": selection.soup["who"]} if selection.soup else {}
    whose |= {"best single model by held-in labels": selection.best_single}
    return HarmRun(
        selection.harmful,
        len(others),
        tuple(ranks.index(name) + 1 for name in bad),
        known,
        tuple(_outcomes(scores, selection, bad)),
        {what: _accuracy(scores, selection, who) for what, who in whose.items()},
    )


def default_setting(selection: SelectionAnalysis) -> Setting:
    """What `smelt select uq` does where nothing is said: everything is perturbed, as by the suite's guide."""
    return Setting(selection.perturbations[selection.guide], CHOOSING["order"], CHOOSING["choose"])


def recommended(runs: Sequence[HarmRun], default: Setting) -> Recommendation:
    """By `RULE`; a setting counts only where every run has it."""
    shared = [one.setting for one in runs[0].outcomes if all(run.outcome(one.setting) for run in runs)]
    found = {setting: _found_by(setting, runs) for setting in shared}
    own = found.get(default, set())
    better = [setting for setting in shared if found[setting] > own]
    kept = {setting: sum(_known(run, setting).kept for run in runs) for setting in shared}
    best = max(better, key=lambda setting: (len(found[setting]), kept[setting]), default=default)
    kinds = {run.harm.kind for run in runs}
    return Recommendation(default, best, tuple(setting for setting in shared if found[setting] == kinds))


def harm_sentences(run: HarmRun, default: Setting) -> list[str]:
    """The symptom, which settings leave the harm out, and what the default does."""
    names, of = " and ".join(run.harm.models), len(run.uncertainty)
    nats = " and ".join(f"{run.uncertainty[name]:.4f}" for name in run.harm.models)
    rest = [value for name, value in run.uncertainty.items() if name not in run.harm.models]
    places = " and ".join(map(str, run.places))
    number = plural(len(run.outcomes), "setting")
    found = [one for one in run.outcomes if one.finds]
    all_out = [one for one in run.outcomes if len(one.harmful) == len(run.harm.models) and not one.finds]
    some = [one for one in run.outcomes if 0 < len(one.harmful) < len(run.harm.models)]
    none = [one for one in run.outcomes if not one.harmful]
    said = [
        f"By itself, the uncertainty of {names} is {nats} nats (place {places} of {of}, the most uncertain first); "
        f"that of the others is {min(rest):.4f} to {max(rest):.4f}.",
        f"Of {number} the harm is found by {len(found)}, left out together with more than half of the others by "
        f"{len(all_out)}, left out in part by {len(some)}, and not at all by {len(none)}.",
    ]
    if found:
        said.append(f"It is found by {'; '.join(one.setting.text for one in found)}.")
    if (own := run.outcome(default)) is not None:
        said.append(f"The default of `smelt select uq` ({default.text}) {_did(own, run)}.")
    return said


def _did(own: Outcome, run: HarmRun) -> str:
    left = ", ".join(own.left_out) or "nobody"
    all_, good = (run.references[what]["held_out"] for what in ("average of all", "average without the harmful ones"))
    here = own.accuracy["held_out"]
    numbers = "" if here is None else f": {percent(here.accuracy)} % on held-out sets"
    beside = [
        f"{percent(cell.accuracy)} % for the average {words}"
        for words, cell in (("of all", all_), ("without the harmful ones", good))
        if cell is not None
    ]
    return f"leaves out {left}{numbers}" + (f", {' and '.join(beside)}" if numbers and beside else "")


def _outcomes(scores: Scores, selection: SelectionAnalysis, bad: Sequence[str]) -> list[Outcome]:
    found = []
    for trace in selection.traces:
        if trace.perturbation is None:
            continue
        for choose in ("first_local_min", "global_min"):
            step = trace.chosen[choose]
            inside = set(trace.added[:step])
            left = tuple(name for name in selection.models if name not in inside)
            harmful = tuple(name for name in left if name in bad)
            kept, others = len(inside - set(bad)), len(selection.models) - len(bad)
            setting = Setting(selection.perturbations[trace.perturbation], trace.order, choose)
            finds = len(harmful) == len(bad) and 2 * kept >= others
            accuracy = _accuracy(scores, selection, trace.who[step - 1])
            found.append(Outcome(setting, left, harmful, finds, kept, accuracy))
    labels = list(selection.perturbations.values())
    return sorted(found, key=lambda one: labels.index(one.setting.perturbation))


def _group(selection: SelectionAnalysis, names: Sequence[str]) -> str:
    """What the average of a group is called: runs of older days have it where it was a step of a trace."""
    whole = {frozenset(trace.added[: n + 1]): who for trace in selection.traces for n, who in enumerate(trace.who)}
    return whole.get(frozenset(names), "")


def _accuracy(scores: Scores, selection: SelectionAnalysis, who: str) -> dict[str, Cell | None]:
    return {kind: scores.mean(who, selection.sets[kind]) for kind in ("held_in", "held_out")}


def _found_by(setting: Setting, runs: Sequence[HarmRun]) -> set[str]:
    return {run.harm.kind for run in runs if _known(run, setting).finds}


def _known(run: HarmRun, setting: Setting) -> Outcome:
    own = run.outcome(setting)
    assert own is not None
    return own
