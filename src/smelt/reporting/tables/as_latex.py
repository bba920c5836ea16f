"""Tables as LaTeX with booktabs rules: paste them into a paper. Best in bold, second underlined."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.tables.columns import heads, note_of, tier_columns
from smelt.reporting.tables.grid import Line
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.reporting.tables.transposed import turned_heads, turned_rows
from smelt.reporting.words import percent
from smelt.suites.sheets import printed

__all__ = ["as_latex"]

_MARKS = {0: "%s", 1: r"\textbf{%s}", 2: r"\underline{%s}"}

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def as_latex(sheets: Sequence[Sheet]) -> str:
    """One `table` environment each; they need the packages booktabs and, where they are wide, graphicx."""
    return "\n".join([r"% \usepackage{booktabs,graphicx}", *map(_table, printed(sheets))])


def _table(sheet: Sheet) -> str:
    names, body = _turned(sheet) if sheet.turned else _lines(sheet)
    caption = " ".join([f"{sheet.title}:" if sheet.title else "", *sheet.caption()])
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{_escape(caption)}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
            r"\toprule",
            " & ".join([_escape(sheet.corner), *map(_escape, names)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def _lines(sheet: Sheet) -> tuple[list[str], list[str]]:
    """The headings after the first, and the lines below."""
    tiers = sheet.tiers()
    names = [name for block in tiers[0] for name in heads(block.grid)]
    body: list[str] = []
    for number, tier in enumerate(tiers):
        body += [r"\midrule"] * bool(number)
        body += _tier(sheet, tier, len(names))
    return names, body


def _turned(sheet: Sheet) -> tuple[list[str], list[str]]:
    """The same where tasks go down and methods across; a rule above the means."""
    names = [head.text for head in turned_heads(sheet)]
    body: list[str] = []
    for number, (title, rows) in enumerate(turned_rows(sheet)):
        body += [r"\midrule"] * bool(number)
        body += [_group(title, len(names))] if title else []
        for place, one in enumerate(rows):
            body += [r"\midrule"] * (one.mean and place > 0 and not rows[place - 1].mean)
            note = rf" {{\small ({_escape(one.note)})}}" if one.note else ""
            numbers = ["--" if n is None else _MARKS[n.rank] % percent(n.value) for n in one.numbers]
            body.append(" & ".join([_escape(one.label) + note, *numbers]) + r" \\")
    return names, body


def _group(title: str, width: int) -> str:
    return rf"\multicolumn{{{width + 1}}}{{l}}{{\emph{{{_escape(title)}}}}} \\"


def _tier(sheet: Sheet, tier: Sequence[Block], width: int) -> list[str]:
    body = [_titles(tier)] if any(block.title for block in tier) else []
    for number, (title, members) in enumerate(sheet.groups(tuple(tier))):
        body += [r"\midrule"] * bool(number)
        if title:
            body.append(_group(title, width))
        body += [" & ".join([_name(one[0], sheet), *_numbers(one, tier)]) + r" \\" for one in members]
    return body


def _titles(tier: Sequence[Block]) -> str:
    """The blocks' titles, each over all of its columns, with rules below."""
    titles, rules, at = [""], [], 2
    for block in tier:
        width = len(heads(block.grid))
        titles.append(rf"\multicolumn{{{width}}}{{c}}{{{_escape(block.title)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return " & ".join(titles) + r" \\ " + " ".join(rules)


def _name(line: Line, sheet: Sheet) -> str:
    extra = note_of(line, sheet)
    return r"\quad " + _escape(line.label) + (rf" {{\small ({_escape(extra)})}}" if extra else "")


def _numbers(lines: Sequence[Line], tier: Sequence[Block]) -> list[str]:
    return ["--" if v is None else _MARKS[rank] % percent(v) for v, rank in tier_columns(lines, tier)]


def _escape(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
