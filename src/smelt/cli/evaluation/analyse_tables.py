"""How `smelt analyse` prints: tables of numbers, shaded as a heat map where the terminal has colours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.evaluation.row import Row

__all__ = ["print_matrix", "print_rows", "print_table"]


def print_rows(what: str, rows: Sequence[Row]) -> None:
    """One line per value of a setting, one column per task, and their means."""
    table: dict[float, dict[str, Row]] = {}
    for row in rows:
        table.setdefault(row.setting[what], {})[row.task] = row
    tasks = list(dict.fromkeys(row.task for row in rows))
    body = [[f"{value:g}", *(at[task].accuracy for task in tasks), *_means(at)] for value, at in table.items()]
    print_table([what, *tasks, "mean", "loss"], body, "{:z.3f}")


def _means(rows: Mapping[str, Row]) -> list[float]:
    """Of accuracy and loss; a loss that a task does not have is not a number."""
    losses = [math.nan if row.loss is None else row.loss for row in rows.values()]
    return [sum(row.accuracy for row in rows.values()) / len(rows), sum(losses) / len(rows)]


def print_matrix(names: Sequence[str], matrix: Sequence[Sequence[float]], form: str, top: float) -> None:
    body = [[name, *row] for name, row in zip(names, matrix, strict=True)]
    print_table(["", *names], body, form, top)


def print_table(head: Sequence[str], body: Sequence[Sequence[Any]], form: str, top: float | None = None) -> None:
    """A table; with `top` its numbers are shaded by their share of it, as a heat map, where there is colour."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for first, *values in body:
        table.add_row(Text(first), *(Text(form.format(value), style=_shade(value, top)) for value in values))
    console = Console()
    Console(width=None if console.is_terminal else 10_000, highlight=False).print(table)


def _shade(value: float, top: float | None) -> str:
    if top is None or math.isnan(value):
        return ""
    share = min(1.0, abs(value) / top)
    strong, weak = round(200 - 150 * share), round(235 - 35 * share)
    colour = f"rgb({strong},{strong},{weak})" if value >= 0 else f"rgb({weak},{strong},{strong})"
    return f"{'white' if share > 0.5 else 'black'} on {colour}"
