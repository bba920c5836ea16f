"""The first thing on the page, in plain words: what was merged, on how much it was tested, and how good it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smelt.evaluate.row import Row
from smelt.report.grid import EXPERT, Cell, Grid, Line, surely_above
from smelt.report.words import count, percent, plural

__all__ = ["Headline", "build_headline", "sentences"]

_NAMED = 8
"""Merges that are named one by one in a sentence."""


@dataclass(frozen=True)
class Headline:
    """The facts behind the first paragraph. Shares are between 0 and 1."""

    suite: str | None
    experts: int
    methods: int
    merges: int
    tasks: int
    pictures: int
    """Of all tasks together, as one model saw them."""
    split: str
    best: Line | None
    expert_average: float | None
    base_average: float | None
    compared: int
    """Merges that have an average, so that they can be compared."""
    not_above: tuple[Line, ...]
    """Those of them whose average is not surely above the base's, best first."""
    zoo: bool
    facts: tuple[tuple[str, str], ...]
    """Device, precision, seed, code version and time, as (name, text)."""

    @property
    def best_average(self) -> float | None:
        return self.best.average.accuracy if self.best and self.best.average else None

    @property
    def closed(self) -> float | None:
        """The share of the way from the base to the experts that the best merge has gone."""
        best, low, high = self.best_average, self.base_average, self.expert_average
        if best is None or low is None or high is None or high <= low:
            return None
        return (best - low) / (high - low)


def build_headline(rows: Iterable[Row], grid: Grid) -> Headline:
    """Gather the facts from rows and table."""
    rows = list(rows)
    base, experts, ranked = grid.base, grid.experts, grid.ranked
    base_average = base.average.accuracy if base and base.average else None
    largest = [max((cell.n for cell in column if cell), default=0) for column in _columns(grid)]
    return Headline(
        suite=next((row.suite for row in rows if row.suite), None),
        experts=len({row.entry for row in rows if row.variant == "reference" and row.entry.startswith(EXPERT)}),
        methods=len({line.entry for line in grid.merges}),
        merges=len(grid.merges),
        tasks=len(grid.tasks),
        pictures=sum(largest),
        split=grid.split,
        best=ranked[0] if ranked else None,
        expert_average=experts.average.accuracy if experts and experts.average else None,
        base_average=base_average,
        compared=len(ranked),
        not_above=tuple(m for m in ranked if base and not _above(m, base)),
        zoo=any(row.model.startswith("zoo:") for row in rows),
        facts=_facts(rows),
    )


def sentences(head: Headline) -> list[str]:
    """The headline as text; what is not known is not said."""
    said = [_what(head)]
    best, average = head.best, head.best_average
    if best and average is not None:
        said.append(f"The best merge, {best.name}, gets {percent(average)} % on average{_between(head, average)}.")
    if head.compared > 1 and head.base_average is not None:
        said.append(_against_base(head))
    return said


def _what(head: Headline) -> str:
    if not head.tasks:
        return "Only curves and paths were measured so far; the table follows when the suite has run."
    tested = f"the same {count(head.pictures)} {head.split} pictures of {plural(head.tasks, 'task')}"
    if not head.merges:
        return f"Models were tested on {tested}."
    what = f"{plural(head.experts, 'fine-tuned expert')} became one model" if head.experts else "Models became one"
    more = f", in {count(head.merges)} variants" if head.merges > head.methods else ""
    return f"{what} by {plural(head.methods, 'merge method')}{more}. Every model was tested on {tested}."


def _between(head: Headline, average: float) -> str:
    parts = []
    if head.expert_average is not None:
        gap = 100 * (head.expert_average - average)
        side = "below" if gap >= 0 else "above"
        parts.append(f"{abs(gap):.1f} points {side} the experts' {percent(head.expert_average)} %")
    if head.base_average is not None:
        gain = 100 * (average - head.base_average)
        side = "above" if gain >= 0 else "below"
        parts.append(f"{abs(gain):.1f} {side} the pre-trained model's {percent(head.base_average)} %")
    return ": " + " and ".join(parts) if parts else ""


def _above(line: Line, base: Line) -> bool:
    return bool(line.average and base.average and surely_above(line.average, base.average))


def _against_base(head: Headline) -> str:
    sure = head.compared - len(head.not_above)
    whole = f"{sure} of" if head.not_above else "All"
    said = (
        f"{whole} {head.compared} merges are above the pre-trained model's average by more than the 95 % interval "
        "of the difference."
    )
    names = [f"{line.name} ({percent(line.average.accuracy)} %)" for line in head.not_above if line.average]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{said} Not so: {', '.join(names[:_NAMED])}{more}." if names else said


def _columns(grid: Grid) -> Iterable[tuple[Cell | None, ...]]:
    return zip(*(line.cells for line in grid.lines), strict=True)


def _facts(rows: list[Row]) -> tuple[tuple[str, str], ...]:
    def every(values: Iterable[object]) -> str:
        return ", ".join(sorted({str(value) for value in values}))

    days = sorted(row.when for row in rows)
    return (
        ("Device", every(row.device for row in rows) + _merged_elsewhere(rows)),
        ("Precision", every(row.dtype for row in rows)),
        ("Seed", every(row.seed for row in rows)),
        ("Code", every(row.code for row in rows)),
        ("Measured", days[0][:10] if days[0][:10] == days[-1][:10] else f"{days[0][:10]} to {days[-1][:10]}"),
    )


def _merged_elsewhere(rows: Iterable[Row]) -> str:
    """A row's device is where the model was evaluated; a suite merges on the CPU whatever that is."""
    other = any(row.suite and row.variant in ("published", "tuned") and row.device.split()[0] != "cpu" for row in rows)
    return " for evaluation; models were merged on the CPU" if other else ""
