"""Tables as Markdown, as the papers print them: tasks across, methods down, or turned. Best bold, second underlined."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.tables.layout import PrintedLine, printed_heads, printed_tiers
from smelt.reporting.tables.sheet import Sheet, printed
from smelt.reporting.words import percent

__all__ = ["as_markdown"]

_MARKS = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Pipe tables; accuracies in percent. Every text is escaped, so that a label stays a label."""
    return "\n".join(_table(sheet) for sheet in printed(sheets))


def _table(sheet: Sheet) -> str:
    heads = printed_heads(sheet)
    rows = [[_escape(sheet.corner), *map(_escape, heads)], ["---", *["---:"] * len(heads)]]
    for tier in printed_tiers(sheet):
        if tier.titles:
            cells = [[f"**{_escape(title)}**", *[""] * (width - 1)] for title, width in tier.titles]
            rows.append(["", *(word for words in cells for word in words)])
        for title, members in tier.groups:
            rows += [[f"*{_escape(title)}*"]] if title else []
            rows += map(_line, members)
    # With empty cells at the end, so that every row of a table has as many.
    lines = ["| " + " | ".join([*row, *[""] * (len(heads) + 1 - len(row))]) + " |" for row in rows]
    name = [f"**{_escape(sheet.title)}**", ""] if sheet.title else []
    return "\n".join([*name, *lines, "", " ".join(map(_escape, sheet.caption())), ""])


def _line(line: PrintedLine) -> list[str]:
    name = _escape(line.label) + (f" ({_escape(line.note)})" if line.note else "")
    numbers = ["–" if value is None else _MARKS[rank].format(percent(value)) for value, rank in line.numbers]
    return [f"**{name}**" if line.mean else name, *numbers]


def _escape(text: str) -> str:
    flat = " ".join(text.split())
    for sign in "\\`*_{}[]#|~":
        flat = flat.replace(sign, "\\" + sign)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
