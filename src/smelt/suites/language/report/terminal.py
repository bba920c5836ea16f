"""A language suite's table in the terminal: domains across, methods down, then what they retain, forget and cost.

avg       mean over the domains                     norm      mean over the domains of score / expert's score
general   mean over general tasks of score / base's score
algorithm, validation   seconds of looking at data and merging; of choosing the setting, over so many trials
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.grid import table_rows
from smelt.reporting.tables.ranks import with_ranks
from smelt.reporting.tables.terminal import Shown, print_lines, shown_cell, shown_share
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.lines import domain_lines, general_lines, task_lines

__all__ = ["show_language"]

_COSTS = ("algorithm s", "validation s", "trials", "peak MB")


def show_language(rows: Sequence[Row], costs: Sequence[CostRow], language: Language) -> None:
    """Print the table; scores are per cent."""
    from rich.console import Console
    from rich.text import Text

    def cut(text: str, width: int) -> str:
        return text[:width]

    console, heads = Console(), [*language.domains, "avg", "norm", "general", *_COSTS]
    print_lines(console, heads, _lines(rows, costs, language), cut, cut)
    console.print(Text("scores in %; norm: of the experts, general: of the base", style="dim"), soft_wrap=True)


def _lines(rows: Sequence[Row], costs: Sequence[CostRow], language: Language) -> list[tuple[str, list[Shown]]]:
    """Every model's name and its numbers, in the order of the report."""
    shown, split = table_rows(rows)
    found = with_ranks(domain_lines(task_lines(shown, language, split), language))
    general = {(line.entry, line.variant): line for line in with_ranks(general_lines(shown, language, split))}
    spent = {(row.entry, str(row.variant)): row for row in costs}
    lines = []
    for line in found:
        key = (line.entry, line.variant)
        scores = [shown_cell(cell) for cell in (*line.cells, line.average)]
        shares = [shown_share(line), shown_share(general.get(key))]
        lines.append((line.name, [*scores, *shares, *_cost(spent.get(key))]))
    return lines


def _cost(row: CostRow | None) -> list[Shown]:
    if row is None:
        return [("", False)] * len(_COSTS)
    algorithm = row.prepare_seconds + row.merge_seconds
    numbers = [f"{algorithm:.1f}", f"{row.validate_seconds:.1f}", str(row.trials), f"{row.most_bytes / 1e6:.0f}"]
    return [(number, False) for number in numbers]
