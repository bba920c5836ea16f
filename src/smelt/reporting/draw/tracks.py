"""Numbers on a horizontal track that is as wide as its place on the page: positions in percent, text in real size."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis
from smelt.reporting.draw.svg import tag
from smelt.reporting.figures.comparison import Ranked, TaskSeries
from smelt.reporting.tables.cells import Cell
from smelt.reporting.words import percent

__all__ = ["cell_text", "rank_track", "task_bars"]


def rank_track(one: Ranked, axis: Axis, references: Sequence[tuple[str, float]]) -> Markup:
    """A method's averages: ring for the published setting, diamond for the tuned one, a line for the 95 % interval."""
    parts = [
        tag("line", x1=_percent(axis, value), x2=_percent(axis, value), y1=0, y2="100%", class_=f"reference {kind}")
        for kind, value in references
    ]
    known = [place.average.accuracy for place in one.places]
    parts.append(
        tag("line", x1=_percent(axis, min(known)), x2=_percent(axis, max(known)), y1=11, y2=11, class_="between")
    )
    for place in reversed(one.places):
        cell = place.average
        text = f"{one.label}, {place.variant}" + (f" ({place.setting})" if place.setting else "")
        shape = tag("circle", r=5, class_="mark published")
        if place.variant == "tuned":
            shape = tag("path", d="M0 -6l6 6l-6 6l-6 -6z", class_="mark tuned")
        whisker = tag("line", x1=_percent(axis, cell.low), x2=_percent(axis, cell.high), y1=11, y2=11, class_="whisker")
        dot = tag("svg", shape, x=_percent(axis, cell.accuracy), y=11, overflow="visible")
        parts.append(tag("g", tag("title", f"{text}: {cell_text(cell)}"), whisker, dot))
    return tag("svg", *parts, width="100%", height=22, role="img", aria_label=f"{one.label}: average accuracy")


def task_bars(task: str, place: int, series: Sequence[TaskSeries]) -> Markup:
    """One task: a bar from 0 to 100 % for every model, on the lane that the page gives to those that are picked."""
    axis = Axis(0.0, 1.0, 0.0, 100.0)
    bars = []
    lane = 0
    for one in series:
        cell = one.cells[place]
        if cell is None:
            continue
        style = f"--c:var(--s{one.colour});--lane:{lane}" if one.chosen else None
        lane += one.chosen
        bars.append(
            tag(
                "g",
                tag("title", f"{one.name}, {task}: {cell_text(cell)}"),
                tag("rect", x=0, y=1, width=_percent(axis, cell.accuracy), height=7, rx=1.5),
                tag("line", x1=_percent(axis, cell.low), x2=_percent(axis, cell.high), y1=4.5, y2=4.5),
                class_=f"series {one.kind}" + ("" if one.chosen else " off"),
                style=style,
                data_series=one.key,
            )
        )
    grid = [tag("line", x1=f"{at}%", x2=f"{at}%", y1=0, y2="100%", class_="grid") for at in (25, 50, 75)]
    return tag("svg", *grid, *bars, width="100%", role="img", aria_label=f"Accuracy on {task}", class_="bars")


def cell_text(cell: Cell) -> str:
    """A number in words: `71.3 % (95 % interval 69.3 to 73.2), 1,426 of 2,000 right`."""
    text = f"{percent(cell.accuracy)} % (95 % interval {percent(cell.low)} to {percent(cell.high)})"
    return text if cell.correct is None else f"{text}, {cell.correct:,} of {cell.n:,} right"


def _percent(axis: Axis, value: float) -> str:
    return f"{axis.at(value):.2f}%"
