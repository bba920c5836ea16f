"""The table as Markdown, as the papers print it: tasks across, methods down, best in bold, second underlined."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.report.columns import beside, columns, has_ratio
from smelt.report.grid import Grid, Line
from smelt.report.words import percent

__all__ = ["as_markdown"]


def as_markdown(grid: Grid) -> str:
    """A pipe table; accuracies in percent. Every text is escaped, so that a label stays a label."""
    head = ["Method", *grid.tasks, "Average", *(["Normalised"] if has_ratio(grid) else [])]
    lines = [_row([_escape(word) for word in head]), _row(["---", *["---:"] * (len(head) - 1)])]
    for title, members in grid.groups():
        lines.append(_row([f"*{_escape(title)}*", *[""] * (len(head) - 1)]))
        lines += [_row([_name(line), *_numbers(line, grid)]) for line in members]
    note = f"Accuracy in % on the {_escape(grid.split)} split. Best merge of a column in bold, second underlined."
    tuned = f" Tuned: {_escape(grid.tuned_on)}." if grid.tuned_on else ""
    return "\n".join([*lines, "", note + tuned, ""])


def _row(words: Sequence[str]) -> str:
    return "| " + " | ".join(words) + " |"


def _name(line: Line) -> str:
    extra = beside(line)
    return _escape(line.label) + (f" ({_escape(extra)})" if extra else "")


def _numbers(line: Line, grid: Grid) -> list[str]:
    marks = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}
    return ["–" if v is None else marks[rank].format(percent(v)) for v, rank in columns(line, grid)]


def _escape(text: str) -> str:
    flat = " ".join(text.split())
    for sign in "\\`*_{}[]#|~":
        flat = flat.replace(sign, "\\" + sign)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
