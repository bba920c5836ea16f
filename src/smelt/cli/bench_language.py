"""A language suite's table in the terminal: domains across, methods down, then what they retain, forget and cost.

avg       mean over the domains                     norm      mean over the domains of score / expert's score
general   mean over general tasks of score / base's score
algorithm, validation   seconds of looking at data and merging; of choosing the setting, over so many trials
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.evaluation.row import CostRow, Row
    from smelt.reporting.tables.cells import Cell
    from smelt.reporting.tables.lines import Line
    from smelt.suites.language.report.analyses import Language

__all__ = ["show_language"]

_COSTS = ("algorithm s", "validation s", "trials", "peak MB")
Shown = tuple[str, bool]
"""A number as text, and whether it is the best."""


def show_language(rows: Sequence[Row | CostRow], language: Language) -> None:
    """Print the table; scores are per cent."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from smelt.cli.bench_table import layout
    from smelt.evaluation.row import CostRow, Row

    scored = [row for row in rows if isinstance(row, Row)]
    lines = _lines(scored, [row for row in rows if isinstance(row, CostRow)], language)
    heads = [*language.domains, "avg", "norm", "general", *_COSTS]
    widest = [max(len(cells[column][0]) for _, cells in lines) for column in range(len(heads))]
    console = Console()
    room = console.width if console.is_terminal or os.environ.get("COLUMNS") else None
    gap, widths = layout(max(len(name) for name, _ in lines), heads, widest, room)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("", no_wrap=True, width=widths[0])
    for head, width in zip(heads, widths[1:], strict=True):
        table.add_column(Text(head[:width]), justify="right", no_wrap=True, width=width)
    for name, cells in lines:
        table.add_row(Text(name[: widths[0]]), *(Text(number, style="bold" if best else "") for number, best in cells))
    Console(width=max(console.width, sum(widths) + gap * len(heads))).print(table)
    console.print(Text("scores in %; norm: of the experts, general: of the base", style="dim"), soft_wrap=True)


def _lines(rows: Sequence[Row], costs: Sequence[CostRow], language: Language) -> list[tuple[str, list[Shown]]]:
    """Every model's name and its numbers, in the order of the report."""
    from smelt.reporting.tables.grid import table_rows
    from smelt.reporting.tables.ranks import with_ranks
    from smelt.suites.language.report.lines import domain_lines, general_lines, task_lines

    shown, split = table_rows(rows)
    found = with_ranks(domain_lines(task_lines(shown, language, split), language))
    kept = {(line.entry, line.variant): line for line in with_ranks(general_lines(shown, language, split))}
    spent = {(row.entry, str(row.variant)): row for row in costs}
    lines = []
    for line in found:
        key = (line.entry, line.variant)
        scores = [_score(cell) for cell in (*line.cells, line.average)]
        shares = [_share(line), _share(kept.get(key))]
        lines.append((line.name, [*scores, *shares, *_cost(spent.get(key))]))
    return lines


def _score(cell: Cell | None) -> Shown:
    return ("", False) if cell is None else (f"{100 * cell.accuracy:.1f}", cell.rank == 1)


def _share(line: Line | None) -> Shown:
    if line is None or line.normalised is None:
        return ("", False)
    return f"{100 * line.normalised:.1f}", line.normalised_rank == 1


def _cost(row: CostRow | None) -> list[Shown]:
    if row is None:
        return [("", False)] * len(_COSTS)
    algorithm = row.prepare_seconds + row.merge_seconds
    numbers = [f"{algorithm:.1f}", f"{row.validate_seconds:.1f}", str(row.trials), f"{row.most_bytes / 1e6:.0f}"]
    return [(number, False) for number in numbers]
