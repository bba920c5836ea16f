"""Tables as LaTeX with booktabs rules: paste them into a paper. Best in bold, second underlined."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.tables.layout import PrintedLine, PrintedTier, printed_heads, printed_tiers
from smelt.reporting.tables.sheet import Sheet, printed
from smelt.reporting.words import percent

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
    names = printed_heads(sheet)
    body: list[str] = []
    for number, tier in enumerate(printed_tiers(sheet)):
        body += [r"\midrule"] * bool(number) + _tier(tier, len(names), r"\quad " * (not sheet.transposed))
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


def _tier(tier: PrintedTier, width: int, indent: str) -> list[str]:
    body = [_titles(tier.titles)] if tier.titles else []
    for number, (title, lines) in enumerate(tier.groups):
        body += [r"\midrule"] * bool(number)
        body += [rf"\multicolumn{{{width + 1}}}{{l}}{{\emph{{{_escape(title)}}}}} \\"] if title else []
        for place, one in enumerate(lines):
            body += [r"\midrule"] * (one.mean and place > 0 and not lines[place - 1].mean)
            body.append(indent + _line(one))
    return body


def _titles(titles: Sequence[tuple[str, int]]) -> str:
    """The blocks' titles, each over all of its columns, with rules below."""
    words, rules, at = [""], [], 2
    for title, width in titles:
        words.append(rf"\multicolumn{{{width}}}{{c}}{{{_escape(title)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return " & ".join(words) + r" \\ " + " ".join(rules)


def _line(line: PrintedLine) -> str:
    note = rf" {{\small ({_escape(line.note)})}}" if line.note else ""
    numbers = ["--" if value is None else _MARKS[rank] % percent(value) for value, rank in line.numbers]
    return " & ".join([_escape(line.label) + note, *numbers]) + r" \\"


def _escape(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
