"""The figures of docs/results/neulig.md, drawn from results/neulig/analyses with the report's own parts.

`charts` draws lines that the report has (mllm10.py), `sloped` slopes (llm5_bases.py), `dots` points (clip8_sizes.py).
All bring their colours and their paper with them, because a picture in a page does not see the
page's style.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANALYSES = Path(__file__).parents[2] / "results" / "neulig" / "analyses"

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b85c90", "#b98500", "#3fa3da", "#7f8791", "#2b3038")
"""The palette of the report on a light page."""
_PALETTE = (*_COLOURS[-2:], *_COLOURS[:-2])
"""The same colours by the numbers that they have in the report."""


def _style(colours: Sequence[str]) -> str:
    return (
        "text { fill: #3d454f; font: 11px system-ui, sans-serif; font-variant-numeric: tabular-nums; } "
        ".grid { stroke: #e2e5e9; } polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; } "
        + " ".join(f".c{number} {{ stroke: {colour}; }}" for number, colour in enumerate(colours))
    )


_STYLE = _style(_COLOURS)
_CHART_STYLE = " ".join(
    [
        _style(_PALETTE),
        ".band { stroke: none; opacity: 0.13; }",
        *(f".band.c{number} {{ fill: {colour}; }}" for number, colour in enumerate(_PALETTE)),
        ".mark.published { stroke: #0072b2; stroke-width: 2; fill: #fff; }",
        ".mark.tuned { stroke: #fff; fill: #d55e00; }",
    ]
)
_DOTS_STYLE = " ".join(
    [
        _style(_COLOURS),
        ".ghost { stroke: #c9ced4; stroke-width: 1; } .dot.ghost { fill: #c9ced4; } .dot { stroke: #fff; }",
        ".whisker { stroke: #7f8791; } .guide { stroke: #7f8791; stroke-dasharray: 4 3; }",
        *(f".dot.c{number} {{ fill: {colour}; stroke: #fff; }}" for number, colour in enumerate(_COLOURS)),
    ]
)

_SLOPES_STYLE = " ".join(
    [
        _style(_PALETTE),
        ".dot { fill: #fff; stroke-width: 2; } .whisker { stroke-width: 1.2; } .leader { stroke: #c3c8ce; }",
        ".reference { stroke: #7f8791; } polyline.reference { stroke-dasharray: 4 3; }",
    ]
)


def blocks() -> dict[str, dict[str, str]]:
    """None: whole files only."""
    return {}


def files() -> dict[str, str]:
    """The drawings, by their place under docs/."""
    shown = {"heat": ("coopvec-map", heat), "heat-tested": ("coopvecs-of-test-pictures", heat)}
    shown["lines"] = ("coopvec-diagonal", diagonal)
    found = {}
    for kind, (name, draw) in shown.items():
        path = ANALYSES / f"{kind}-vit-7-experts-neulig-supervised.json"
        if path.is_file():
            found[f"results/figures/{name}.svg"] = draw(json.loads(path.read_text(encoding="utf-8")))
    return found


def heat(data: Any) -> str:
    """A map as a picture: the darker, the larger the coefficient."""
    from smelt.reporting.draw.svg import tag
    from smelt.reporting.figures.heat import Matrix, plain_map

    wide, high, left, top = 62.0, 26.0, 74.0, 44.0
    names = tuple(data["columns"])
    drawn = plain_map(Matrix(tuple(data["rows"]), names, tuple(tuple(row) for row in data["matrix"])))
    inside = [tag("text", "expert", x=left, y=16.0)]
    inside += [tag("text", name, x=left + (at + 0.5) * wide, y=34.0, text_anchor="middle") for at, name in _at(names)]
    for at, (name, cells) in enumerate(drawn.rows):
        y = top + at * high
        inside.append(tag("text", name, x=left - 8, y=y + 17, text_anchor="end"))
        for place, cell in _at(cells):
            box = {"x": left + place * wide + 1, "y": y + 1, "width": wide - 2, "height": high - 2}
            frame = {"stroke": "#1c2026", "stroke_width": 1.2} if cell.own else {}
            blue = tag("rect", tag("title", cell.tip), **box, **frame, fill="#0072b2", fill_opacity=cell.strength)
            pale = "fill: #fff" if cell.strength > 0.5 else None
            middle = left + (place + 0.5) * wide
            inside += [blue, tag("text", cell.text, x=middle, y=y + 17, text_anchor="middle", style=pale)]
    return _picture(data["title"], left + len(names) * wide + 12, top + len(drawn.rows) * high + 12, inside)


def diagonal(data: Any) -> str:
    """Lines in colour, with their names at the side: from the highest end to the lowest."""
    from smelt.reporting.draw.axis import round_ticks
    from smelt.reporting.draw.panel import Stroke, panel
    from smelt.reporting.draw.svg import tag

    x, y = (float(data["x"][0]), float(data["x"][-1])), (0.0, 1.04)
    lines = data["lines"]
    strokes = [
        Stroke(name, list(zip(data["x"], line, strict=True)), f"c{at}") for at, (name, line) in _at(lines.items())
    ]
    drawing = panel(
        data["title"],
        strokes,
        x=x,
        y=y,
        x_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*x)],
        y_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*y)],
        wide=True,
    )
    inside = [tag("text", data["y_label"], x=12.0, y=18.0), tag("svg", drawing, x=4, y=20, width=440, height=210)]
    inside.append(tag("text", data["x_label"], x=440.0, y=244.0, text_anchor="end"))
    order = list(lines)
    for place, name in _at(sorted(order, key=lambda one: -lines[one][-1])):
        at = 44.0 + 22 * place
        inside.append(
            tag("line", x1=458.0, x2=478.0, y1=at - 4, y2=at - 4, class_=f"c{order.index(name)}", stroke_width=3)
        )
        inside.append(tag("text", name, x=484.0, y=at))
    return _picture(data["title"], 560.0, 254.0, inside)


def charts(figure: Any, x_label: str) -> str:
    """A `LineFigure` of the report: its charts one below the other, and at their side what the colours mean."""
    from smelt.reporting.draw.svg import tag

    inside = []
    for number, chart in _at(figure.charts):
        top = 252.0 * number
        inside.append(tag("text", chart.title, x=12.0, y=top + 18))
        inside.append(tag("svg", chart.drawing, x=4, y=top + 24, width=440, height=210))
        inside.append(tag("text", x_label, x=438.0, y=top + 246, text_anchor="end"))
    for number, (name, colour) in _at(figure.keys):
        at = 44.0 + 22 * number
        inside.append(tag("line", x1=458.0, x2=478.0, y1=at - 4, y2=at - 4, class_=f"c{colour}", stroke_width=3))
        inside.append(tag("text", name, x=484.0, y=at))
    return _picture(figure.title, 640.0, 252.0 * len(figure.charts) + 4, inside, _CHART_STYLE)


def sloped(drawing: Any, title: str) -> str:
    """Lines from column to column (smelt.reporting.draw.slopes), as a picture."""
    from smelt.reporting.draw.slopes import HEIGHT, WIDTH
    from smelt.reporting.draw.svg import tag

    inside = [tag("svg", drawing, x=4, y=4, width=WIDTH, height=HEIGHT)]
    return _picture(title, WIDTH + 8, HEIGHT + 8, inside, _SLOPES_STYLE)


def dots(figure: Any) -> str:
    """A figure of points with colours, as its report draws it, and at its side what the colours mean."""
    from smelt.reporting.draw.svg import tag

    inside = [tag("svg", figure.drawing, x=4, y=4, width=600, height=364)]
    for number, (name, colour) in _at(figure.keys):
        at = 44.0 + 22 * number
        inside.append(tag("line", x1=618.0, x2=638.0, y1=at - 4, y2=at - 4, class_=f"c{colour}", stroke_width=3))
        inside.append(tag("text", name, x=644.0, y=at))
    return _picture(figure.title, 800.0, 372.0, inside, _DOTS_STYLE)


def _at(things: Any) -> list[tuple[int, Any]]:
    return list(enumerate(things))


def _picture(title: str, width: float, height: float, inside: Sequence[Any], style: str = _STYLE) -> str:
    from smelt.reporting.draw.svg import tag

    paper = tag("rect", width=width, height=height, rx=6, fill="#fff")
    words = {"viewBox": f"0 0 {width:g} {height:g}", "width": width, "height": height, "role": "img"}
    words["xmlns"] = "http://www.w3.org/2000/svg"
    return str(tag("svg", tag("title", title), tag("style", style), paper, *inside, **words)) + "\n"
