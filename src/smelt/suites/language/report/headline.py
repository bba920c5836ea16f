"""The first words about a language suite: who keeps most of the experts, how surely, what it forgets, and the paper."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.order import OrderBeside
from smelt.reporting.pages import Tile
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.standing import Standing, difference, ranked, standings
from smelt.suites.language.report.tables import GENERAL, TASKS, base_name, sheet_of

__all__ = ["language_sentences", "language_tiles"]

_SURE = 0.05
_HOW = (
    "intervals: normal approximation from the tasks' own, combined over the domains as independent, experts' scores "
    "taken as known; all models answered the same examples, so that this errs on the side of caution"
)


def language_sentences(
    rows: Sequence[Row],
    costs: Sequence[CostRow],
    sheets: Sequence[Sheet],
    language: Language,
    order: OrderBeside | None = None,
) -> list[str]:
    """What was compared, who is best, what is forgotten, and whether the order is the paper's."""
    found = standings(sheets, costs, language)
    best = ranked(found)
    said = [_what(rows, sheets, language, len([one for one in found if one.kind == "method"]))]
    if best:
        said += [_best(best, found), _beside_single(best, found), _forgotten(best, found)]
        said.append(_order(order, base_name(rows, language)))
    elif any(one.kind == "method" for one in found):
        said.append("The experts were not measured on all domains, so that no share of them is known.")
    return [sentence for sentence in said if sentence]


def language_tiles(
    costs: Sequence[CostRow], sheets: Sequence[Sheet], language: Language, order: OrderBeside | None = None
) -> list[Tile]:
    """The best method, the models it stands between, what it keeps elsewhere, and the agreement with the paper."""
    found = standings(sheets, costs, language)
    tiles = []
    for one in ranked(found)[:1]:
        if one.skill:
            tiles.append(Tile("Best method", percent(one.skill.accuracy), f"of the experts: {one.label}", best=True))
        if one.generalisation:
            tiles.append(
                Tile("General ability kept", percent(one.generalisation.accuracy), f"of the base's, by {one.label}")
            )
    others = {
        "multitask": ("Trained together", "one model on all domains"),
        "single": ("Without merging", "{}"),
        "base": ("Before merging", "the base model"),
    }
    for one in found:
        if one.kind in others and one.skill:
            title, who = others[one.kind]
            who = who.format(one.label[0].lower() + one.label[1:])
            tiles.append(Tile(title, percent(one.skill.accuracy), f"of the experts: {who}"))
    agreed = order and order.agreement
    if agreed:
        ends = f"95 % interval {agreed.low:.2f} to {agreed.high:.2f}"
        below = f"Kendall's tau with the paper's order, {agreed.methods} methods ({ends})"
        tiles.append(Tile("Order", f"{agreed.kendall:.2f}", below, unit=""))
    return tiles


def _what(rows: Sequence[Row], sheets: Sequence[Sheet], language: Language, methods: int) -> str:
    tasks, general = sheet_of(sheets, TASKS), sheet_of(sheets, GENERAL)
    examples = tasks.blocks[0].grid.examples if tasks else 0
    specialists = f"{plural(len(language.domains), 'specialist')} of {base_name(rows, language)}"
    became = f"became one model by {plural(methods, 'method')}" if methods else "are not merged yet"
    said = (
        f"{specialists} {became}. Every model answered the same {count(examples)} test examples of "
        f"{plural(len(language.tasks), 'task')} in {plural(len(language.domains), 'domain')}"
    )
    if general is not None:
        said += f", and {count(general.blocks[0].grid.examples)} examples of "
        said += plural(len(language.general), "general task")
    return f"{said}."


def _best(best: Sequence[Standing], found: Sequence[Standing]) -> str:
    first = best[0]
    assert first.skill is not None
    said = (
        f"The best method, {first.label}, keeps {percent(first.skill.accuracy)} % of the experts' performance "
        f"(95 % interval {percent(first.skill.low)} to {percent(first.skill.high)}; mean over the domains of score / "
        "expert's score)"
    )
    said += "".join(_beside(first, one) for one in found if one.kind in ("base", "multitask"))
    if len(best) > 1 and best[1].skill:
        apart = difference(first.skill, best[1].skill)
        sure = "leaves out zero" if apart.sure else "holds zero, so that either may be the better one"
        said += (
            f". It is {percent(apart.value)} points above {best[1].label} ({percent(best[1].skill.accuracy)} %); the "
            f"95 % interval of the difference, {percent(apart.low)} to {percent(apart.high)}, {sure}"
        )
        behind = [m for m in best[1:] if m.skill and difference(first.skill, m.skill).sure]
        said += f". {len(behind)} of the other {len(best) - 1} methods are surely below it ({_HOW})"
    return f"{said}."


def _beside(first: Standing, other: Standing) -> str:
    if first.skill is None or other.skill is None:
        return ""
    apart = difference(first.skill, other.skill)
    side = "above" if apart.value >= 0 else "below"
    name = "the base model" if other.kind == "base" else "the model trained on all domains together"
    sure = "" if apart.sure else ", within the interval"
    return f", {percent(abs(apart.value))} points {side} {name} ({percent(other.skill.accuracy)} %{sure})"


def _beside_single(best: Sequence[Standing], found: Sequence[Standing]) -> str:
    """Whether merging is worth more than taking one specialist as it is."""
    single = next((one for one in found if one.kind == "single"), None)
    first = best[0]
    if single is None or single.skill is None or first.skill is None:
        return ""
    own, apart = single.skill, difference(first.skill, single.skill)
    gaps = [difference(one.skill, own) for one in best if one.skill]
    above, sure = sum(gap.value > 0 for gap in gaps), sum(gap.low > 0 for gap in gaps)
    name = single.label[0].lower() + single.label[1:]
    return (
        f"The {name} keeps {percent(own.accuracy)} % by itself (95 % interval {percent(own.low)} to "
        f"{percent(own.high)}; {single.note}). {first.label} is {percent(abs(apart.value))} points "
        f"{'above' if apart.value >= 0 else 'below'} it; the 95 % interval of the difference, {percent(apart.low)} to "
        f"{percent(apart.high)}, {'leaves out' if apart.sure else 'holds'} zero. Methods above "
        f"it: {above} of {len(gaps)}, {sure} of them surely."
    )


def _forgotten(best: Sequence[Standing], found: Sequence[Standing]) -> str:
    known = [(one.generalisation.accuracy, one) for one in best if one.generalisation]
    if not known:
        return ""
    said = []
    if best[0].generalisation:
        said.append(f"{best[0].label} keeps {percent(best[0].generalisation.accuracy)} % of the base model's score")
    most, least = max(known, key=lambda one: one[0]), min(known, key=lambda one: one[0])
    if len(known) > 1:
        said.append(f"most is kept by {most[1].label} ({percent(most[0])} %), least by {least[1].label}")
        said[-1] += f" ({percent(least[0])} %)"
    together = next((one for one in found if one.kind == "multitask" and one.generalisation), None)
    if together and together.generalisation:
        said.append(f"the model trained on all domains together keeps {percent(together.generalisation.accuracy)} %")
    return f"What is forgotten: on general tasks {'; '.join(said)}."


def _order(order: OrderBeside | None, base: str) -> str:
    if order is None or order.agreement is None:
        return ""
    agreed, column = order.agreement, order.order.column
    few = "which is weak evidence" if agreed.chance < _SURE else "so that no agreement is shown"
    whose = f"the paper's order for {column}" if column else "the paper's overall order"
    other = "" if column else f"; and {base} is one small model beside the mean of eight with 2 to 9 billion parameters"
    return (
        f"The order of the {agreed.methods} methods beside {whose} (its {order.order.table.table}): Kendall's tau "
        f"{agreed.kendall:.2f} (95 % interval {agreed.low:.2f} to {agreed.high:.2f}, over the noise of the examples), "
        f"Spearman's rho {agreed.spearman:.2f}. Of random orders of so few methods {agreed.chance_text} % agree or "
        f"disagree as strongly, {few}{other}."
    )
