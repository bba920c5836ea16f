"""How the CoopVecs of single pictures lie: for every data set and expert a histogram of the coefficients.

What a map of means hides: whether pictures of a data set agree on an expert, or some take one and some another. From
the files coopvecs-NAME.json that the units leave; the drawing has a small histogram in every cell, 0 at its left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from smelt.errors import CorruptFile
from smelt.reporting.analyses import read_figure
from smelt.reporting.draw.svg import tag

__all__ = ["CoopVecs", "drawn", "read_coopvecs"]

_CELL, _HIGH, _GAP, _LETTER = 84, 34, 8, 6.6
_ROOM = 16
"""Of the drawing, above the cells for the experts' names."""


@dataclass(frozen=True)
class CoopVecs:
    """The histograms of one Portland: counts[data set][expert][bin], bins of equal width from 0 to 1."""

    title: str
    epoch: int
    tasks: tuple[str, ...]
    experts: tuple[str, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def drawing(self) -> Markup:
        return drawn(self)


def read_coopvecs(folder: Path) -> tuple[CoopVecs, ...]:
    """All that a folder of analyses has, by title and epoch."""
    found = [_checked(content, path) for path in folder.glob("coopvecs-*.json") if (content := read_figure(path))]
    return tuple(sorted(found, key=lambda one: (one.title, one.epoch)))


def _checked(content: dict[str, Any], path: Path) -> CoopVecs:
    try:
        tasks, experts = tuple(map(str, content["tasks"])), tuple(map(str, content["experts"]))
        counts = tuple(tuple(tuple(map(int, bins)) for bins in row) for row in content["counts"])
        found = CoopVecs(str(content["title"]), int(content["epoch"]), tasks, experts, counts)
    except (KeyError, TypeError, ValueError):
        raise CorruptFile(f"{path}: does not hold histograms of CoopVecs; run the suite again") from None
    if len(counts) != len(tasks) or any(len(row) != len(experts) for row in counts):
        raise CorruptFile(f"{path}: `counts` should have {len(tasks)} rows of {len(experts)} histograms")
    return found


def drawn(found: CoopVecs) -> Markup:
    """Data sets down, experts across; the height of a bar is the share of the data set's pictures, at most its cell."""
    left = 12 + _LETTER * max(map(len, found.tasks))
    parts = [
        tag("text", name, x=left + at * (_CELL + _GAP) + _CELL / 2, y=11, text_anchor="middle", class_="tick")
        for at, name in enumerate(found.experts)
    ]
    for down, (task, row) in enumerate(zip(found.tasks, found.counts, strict=True)):
        top = _ROOM + down * (_HIGH + _GAP)
        parts.append(tag("text", task, x=left - 8, y=top + _HIGH / 2 + 4, text_anchor="end", class_="tick"))
        for across, bins in enumerate(row):
            parts.append(_cell(bins, left + across * (_CELL + _GAP), top, f"{task}, {found.experts[across]}"))
    width, height = left + len(found.experts) * (_CELL + _GAP), _ROOM + len(found.tasks) * (_HIGH + _GAP)
    label = f"{found.title}: histograms of the CoopVecs after epoch {found.epoch}"
    words = {"viewBox": f"0 0 {width:g} {height:g}", "width": width, "height": height}
    return tag("svg", *parts, role="img", aria_label=label, **words)


def _cell(bins: tuple[int, ...], x: float, y: float, title: str) -> Markup:
    total, wide = sum(bins) or 1, _CELL / len(bins)
    bars = [
        tag("rect", x=x + at * wide, y=y + _HIGH * (1 - count / total), width=wide, height=_HIGH * count / total)
        for at, count in enumerate(bins)
        if count
    ]
    frame = tag("rect", x=x, y=y, width=_CELL, height=_HIGH, fill="none", stroke="currentColor", stroke_opacity=0.25)
    top = max(range(len(bins)), key=bins.__getitem__)
    said = f"{title}: most pictures give {top / len(bins):.2f} to {(top + 1) / len(bins):.2f}"
    return tag("g", tag("title", said), frame, *bars, fill="currentColor")
