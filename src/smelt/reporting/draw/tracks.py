"""Numbers on a horizontal track that is as wide as its place on the page: positions in percent, text in real size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, place_text
from smelt.reporting.draw.svg import tag
from smelt.reporting.figures.comparison import Ranked, TaskSeries
from smelt.reporting.tables.cells import Cell
from smelt.reporting.words import percent

__all__ = ["cell_text", "rank_track", "task_bars", "track_line", "track_mark", "track_reference"]


def rank_track(one: Ranked, axis: Axis, references: Sequence[tuple[str, float]]) -> Markup:
    """A method's averages: ring for the published setting, diamond for the tuned one, a line for the 95 % interval."""
    parts = [track_reference(axis, value, kind) for kind, value in references]
    known = [place.average.accuracy for place in one.places]
    parts.append(track_line(axis, min(known), max(known), "between"))
    for place in reversed(one.places):
        cell = place.average
        text = f"{one.label}, {place.variant}" + (f" ({place.setting})" if place.setting else "")
        whisker = track_line(axis, cell.low, cell.high, "whisker")
        dot = track_mark(axis, cell.accuracy, "tuned" if place.variant == "tuned" else "published")
        parts.append(tag("g", tag("title", f"{text}: {cell_text(cell)}"), whisker, dot))
    return tag("svg", *parts, width="100%", height=22, role="img", aria_label=f"{one.label}: average accuracy")


def track_reference(axis: Axis, value: float, kind: str) -> Markup:
    """A line across the track."""
    at = place_text(axis, value)
    return tag("line", x1=at, x2=at, y1=0, y2="100%", class_=f"reference {kind}")


def track_line(axis: Axis, low: float, high: float, kind: str) -> Markup:
    """A line along the track."""
    return tag("line", x1=place_text(axis, low), x2=place_text(axis, high), y1=11, y2=11, class_=kind)


def track_mark(axis: Axis, value: float, kind: Literal["published", "tuned"]) -> Markup:
    """A ring, or for `tuned` a diamond."""
    shape = tag("circle", r=5, class_="mark published")
    if kind == "tuned":
        shape = tag("path", d="M0 -6l6 6l-6 6l-6 -6z", class_="mark tuned")
    return tag("svg", shape, x=place_text(axis, value), y=11, overflow="visible")


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
                tag("rect", x=0, y=1, width=place_text(axis, cell.accuracy), height=7, rx=1.5),
                tag("line", x1=place_text(axis, cell.low), x2=place_text(axis, cell.high), y1=4.5, y2=4.5),
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
