"""A radar: one corner per task, one outline per model. Every model is drawn; the page shows those that are picked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from smelt.reporting.draw.svg import tag
from smelt.reporting.figures.comparison import TaskSeries
from smelt.reporting.words import percent

__all__ = ["radar"]

_WIDTH, _HEIGHT, _RADIUS = 360.0, 316.0, 122.0
_RINGS = (0.25, 0.5, 0.75, 1.0)


def radar(title: str, tasks: Sequence[str], series: Sequence[TaskSeries]) -> Markup:
    """Accuracies from 0 in the middle to 100 % at the rim; a model that lacks a task is left out."""
    whole = [one for one in series if all(one.cells)]
    rings = [tag("polygon", points=_outline([share] * len(tasks)), class_="grid") for share in _RINGS]
    scale = [
        tag("text", percent(share).removesuffix(".0"), x=_at(0, 1, share)[0] + 3, y=_at(0, 1, share)[1] + 9)
        for share in _RINGS
    ]
    spokes = [_spoke(number, task, len(tasks)) for number, task in enumerate(tasks)]
    return tag(
        "svg",
        tag("title", title),
        *rings,
        *spokes,
        *scale,
        *(_model(one, tasks) for one in whole),
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        class_="radar",
    )


def _model(one: TaskSeries, tasks: Sequence[str]) -> Markup:
    values = [cell.accuracy for cell in one.cells if cell]
    dots = []
    for number, (task, value) in enumerate(zip(tasks, values, strict=True)):
        x, y = _at(number, len(tasks), value)
        dots.append(tag("circle", tag("title", f"{one.name}, {task}: {percent(value)} %"), cx=x, cy=y, r=3.0))
    colour = "" if one.colour is None else f"--c:var(--s{one.colour})"
    return tag(
        "g",
        tag("polygon", points=_outline(values)),
        *dots,
        class_=f"series {one.kind}" + ("" if one.chosen else " off"),
        style=colour or None,
        data_series=one.key,
    )


def _spoke(number: int, task: str, tasks: int) -> Markup:
    x, y = _at(number, tasks, 1.0)
    label_x, label_y = _at(number, tasks, 1.0, 13.0)
    anchor = "middle" if abs(x - _WIDTH / 2) < 4 else "start" if x > _WIDTH / 2 else "end"
    line = tag("line", x1=_WIDTH / 2, y1=_HEIGHT / 2, x2=x, y2=y, class_="grid")
    return line + tag("text", task, x=label_x, y=label_y + 4, text_anchor=anchor, class_="name")


def _outline(values: Sequence[float]) -> str:
    corners = (_at(number, len(values), value) for number, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _at(number: int, tasks: int, value: float, beyond: float = 0.0) -> tuple[float, float]:
    turn = 2 * math.pi * number / tasks
    length = value * _RADIUS + beyond
    return _WIDTH / 2 + length * math.sin(turn), _HEIGHT / 2 - length * math.cos(turn)
