"""The first thing on the page, in plain words: what was merged, on how much it was tested, and how good it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.pages import Tile
from smelt.reporting.tables.cells import surely_above
from smelt.reporting.tables.grid import Grid, best_first
from smelt.reporting.tables.lines import TableLine, is_expert
from smelt.reporting.words import count, percent, plural

__all__ = ["Headline", "build_headline", "named", "sentences", "tiles"]

_NAMED = 8
"""Merges that are named one by one in a sentence."""


@dataclass(frozen=True)
class Headline:
    """The facts behind the first paragraph. Shares are between 0 and 1."""

    experts: int
    methods: int
    merges: int
    tasks: int
    examples: int
    """Of all tasks together, as one model saw them."""
    unit: str
    split: str
    best: TableLine | None
    expert_average: float | None
    base: TableLine | None
    base_average: float | None
    compared: int
    """Merges that have an average, so that they can be compared."""
    not_above: tuple[TableLine, ...]
    """Those of them whose average is not surely above the base's, best first."""
    larger: tuple[tuple[str, TableLine], ...] = ()
    """The best mixture and the best ensemble, by what they are."""

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
    base, experts, ranked = grid.base, grid.experts, grid.ranked
    groups = (("mixture", "mix"), ("ensemble", "ensemble"))
    best = ((what, best_first(line for line in grid.larger if line.group == group)) for what, group in groups)
    return Headline(
        experts=len({row.entry for row in rows if is_expert(row)}),
        methods=len({line.entry for line in grid.merges}),
        merges=len(grid.merges),
        tasks=len(grid.tasks),
        examples=grid.examples,
        unit=grid.unit,
        split=grid.split,
        best=grid.best,
        expert_average=experts.average.accuracy if experts and experts.average else None,
        base=base,
        base_average=base.average.accuracy if base and base.average else None,
        compared=len(ranked),
        not_above=tuple(m for m in ranked if base and not _above(m, base)),
        larger=tuple((what, lines[0]) for what, lines in best if lines),
    )


def sentences(head: Headline) -> list[str]:
    """The headline as text; what is not known is not said."""
    said = [_what(head)]
    best, average = head.best, head.best_average
    if best and average is not None:
        said.append(f"The best merge, {named(best)}, gets {percent(average)} % on average{_between(head, average)}.")
    if head.larger:
        said.append(_larger(head))
    if head.compared > 1 and head.base_average is not None:
        said.append(_against_base(head))
    return said


def tiles(head: Headline) -> list[Tile]:
    """The best merge, mixture and ensemble, what they stand between, and how much of that way is gone."""
    found = []
    if head.best and head.best_average is not None:
        found.append(Tile("Best merge", percent(head.best_average), head.best.name, best=True))
    found += [
        Tile(f"Best {what}", percent(line.average.accuracy), line.name) for what, line in head.larger if line.average
    ]
    if head.expert_average is not None:
        found.append(Tile("Experts", percent(head.expert_average), "each on its own task"))
    if head.base and head.base_average is not None:
        found.append(Tile("Before merging", percent(head.base_average), head.base.label))
    if head.closed is not None:
        share = min(max(head.closed, 0.0), 1.0)
        found.append(Tile("Gap closed", f"{round(100 * head.closed)}", "of the way to the experts", meter=share))
    return found


def named(line: TableLine) -> str:
    """A line's name, with the warning that goes with it if there is one."""
    return f"{line.name} ({line.loud})" if line.loud else line.name


def _what(head: Headline) -> str:
    if not head.tasks:
        return "Only curves and paths were measured so far; the table follows when the suite has run."
    tested = f"the same {count(head.examples)} {head.split} {head.unit}s of {plural(head.tasks, 'task')}"
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


def _larger(head: Headline) -> str:
    """What more than one model of the experts' size reaches."""
    said = [
        f"the best {what}, {named(line)}, gets {percent(line.average.accuracy)} %"
        for what, line in head.larger
        if line.average
    ]
    return f"With more than one model's size, {' and '.join(said)}."


def _above(line: TableLine, base: TableLine) -> bool:
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
