"""Tables as Markdown, as the papers print them: tasks across, methods down, or turned. Best bold, second underlined."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.tables.columns import heads, note_of, tier_columns
from smelt.reporting.tables.grid import Line
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.reporting.tables.transposed import turned_heads, turned_rows
from smelt.reporting.words import percent
from smelt.suites.sheets import printed

__all__ = ["as_markdown"]

_MARKS = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Pipe tables; accuracies in percent. Every text is escaped, so that a label stays a label."""
    return "\n".join(_table(sheet) for sheet in printed(sheets))


def _table(sheet: Sheet) -> str:
    return _framed(sheet, _turned(sheet) if sheet.turned else _lines(sheet))


def _lines(sheet: Sheet) -> list[str]:
    tiers = sheet.tiers()
    names = [name for block in tiers[0] for name in heads(block.grid)]
    lines = [_row(["Method", *map(_escape, names)]), _row(["---", *["---:"] * len(names)])]
    for tier in tiers:
        if any(block.title for block in tier):
            lines.append(_row(_padded(["", *_titles(tier)], len(names))))
        for title, members in sheet.groups(tier):
            if title:
                lines.append(_row(_padded([f"*{_escape(title)}*"], len(names))))
            lines += [_row(_padded([_name(one[0], sheet), *_numbers(one, tier)], len(names))) for one in members]
    return lines


def _turned(sheet: Sheet) -> list[str]:
    """Tasks down, methods across."""
    heads = turned_heads(sheet)
    lines = [
        _row([_escape(sheet.corner), *(_escape(head.text) for head in heads)]),
        _row(["---", *["---:"] * len(heads)]),
    ]
    for title, rows in turned_rows(sheet):
        lines += [_row(_padded([f"*{_escape(title)}*"], len(heads)))] if title else []
        for one in rows:
            name = _escape(one.label) + (f" ({_escape(one.note)})" if one.note else "")
            numbers = ["–" if n is None else _MARKS[n.rank].format(percent(n.value)) for n in one.numbers]
            lines.append(_row([f"**{name}**" if one.mean else name, *numbers]))
    return lines


def _framed(sheet: Sheet, lines: Sequence[str]) -> str:
    name = [f"**{_escape(sheet.title)}**", ""] if sheet.title else []
    return "\n".join([*name, *lines, "", " ".join(map(_escape, sheet.caption())), ""])


def _titles(tier: Sequence[Block]) -> list[str]:
    """The blocks' titles, each over its first column."""
    titled = ([f"**{_escape(block.title)}**", *[""] * (len(heads(block.grid)) - 1)] for block in tier)
    return [word for words in titled for word in words]


def _row(words: Sequence[str]) -> str:
    return "| " + " | ".join(words) + " |"


def _padded(words: list[str], columns: int) -> list[str]:
    """With empty cells at the end, so that every row of a table has as many."""
    return words + [""] * (columns + 1 - len(words))


def _name(line: Line, sheet: Sheet) -> str:
    extra = note_of(line, sheet)
    return _escape(line.label) + (f" ({_escape(extra)})" if extra else "")


def _numbers(lines: Sequence[Line], tier: Sequence[Block]) -> list[str]:
    return ["–" if v is None else _MARKS[rank].format(percent(v)) for v, rank in tier_columns(lines, tier)]


def _escape(text: str) -> str:
    flat = " ".join(text.split())
    for sign in "\\`*_{}[]#|~":
        flat = flat.replace(sign, "\\" + sign)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
