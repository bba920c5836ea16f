"""The table as LaTeX with booktabs rules: paste it into a paper. Best in bold, second underlined."""

from __future__ import annotations

from smelt.report.columns import beside, columns, has_ratio
from smelt.report.grid import Grid, Line
from smelt.report.words import percent

__all__ = ["as_latex"]

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


def as_latex(grid: Grid) -> str:
    """One `table` environment that needs the booktabs and, where it is wide, the graphicx package."""
    width = len(grid.tasks) + 1 + has_ratio(grid)
    head = ["Method", *map(_escape, grid.tasks), "Average", *(["Normalised"] if has_ratio(grid) else [])]
    body: list[str] = []
    for number, (title, members) in enumerate(grid.groups()):
        body += [r"\midrule"] * bool(number)
        body.append(rf"\multicolumn{{{width + 1}}}{{l}}{{\emph{{{_escape(title)}}}}} \\")
        body += [" & ".join([_name(line), *_numbers(line, grid)]) + r" \\" for line in members]
    caption = (
        f"Accuracy in percent on the {_escape(grid.split)} split; best merge of a column in bold, second underlined."
    )
    return "\n".join(
        [
            r"% \usepackage{booktabs,graphicx}",
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * width}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def _name(line: Line) -> str:
    extra = beside(line)
    return r"\quad " + _escape(line.label) + (rf" {{\small ({_escape(extra)})}}" if extra else "")


def _numbers(line: Line, grid: Grid) -> list[str]:
    marks = {0: "%s", 1: r"\textbf{%s}", 2: r"\underline{%s}"}
    return ["--" if v is None else marks[rank] % percent(v) for v, rank in columns(line, grid)]


def _escape(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
