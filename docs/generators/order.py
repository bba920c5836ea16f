"""The order of the methods beside the published one, as text for a page: of any folder that `smelt bench` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def order(folder: Path) -> str:
    """Every printed order with ours beside it: a table and how far they agree; at the end what the words mean."""
    from smelt.reporting.order import ORDER_NOTE
    from smelt.reporting.pages import read_folder
    from smelt.suites.report import view_of

    if not (folder / "rows.jsonl").is_file():
        return f"Not measured yet: `smelt bench {folder.name} -o results/{folder.name}`."
    _, view = view_of(folder, *read_folder(folder))
    if not view.orders:
        return "The run names no printed order."
    return "\n\n".join([*map(_beside, view.orders), ORDER_NOTE])


def _beside(one: Any) -> str:
    from smelt.reporting.order import order_sentence

    heads = [f"| place here | method | {one.measure} | place there | printed |", "| ---: | --- | ---: | ---: | ---: |"]
    lines = [
        f"| {line.place} | {line.label} | {_with_interval(line.mean)} | {line.printed_place} | {line.printed_text} |"
        for line in one.lines
    ]
    table = ["\n".join([*heads, *lines])] if lines else []
    return "\n\n".join([f"**{one.title}.** {one.order.table.source}.", *table, order_sentence(one)])


def _with_interval(cell: Any) -> str:
    return f"{100 * cell.accuracy:.1f} ({100 * cell.low:.1f} to {100 * cell.high:.1f})"
