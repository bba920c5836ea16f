"""How the commands of this folder print tables."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

__all__ = ["print_table"]


def print_table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], *, left: Container[int] = (0,), **about: Any
) -> None:
    """Columns stand to the right, but for those whose numbers are in `left`; `about` are words of rich's Table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(**about)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number in left else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
