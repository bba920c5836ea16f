"""What a result shows: facts, tables, sentences and code, one below the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Block", "Cell", "Code", "Facts", "Lines", "Table"]


@dataclass(frozen=True)
class Cell:
    """A text in a table that stands out."""

    text: str
    shade: float = 0.0
    """From -1 to 1, as in a heat map: the sign chooses the colour, 0 has none."""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under headings. Columns stand to the right, but for those whose numbers are in `left`."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    left: Collection[int] = (0,)
    rules: Collection[int] = ()
    """Rows that have a line above them."""
    cut: bool = False
    """A row is one line: where a terminal ends, so does the last column."""


@dataclass(frozen=True)
class Facts:
    """A text for each word; one without a word belongs to the fact before it."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Lines:
    """Sentences, each on a line of its own."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Code:
    """What a file holds, as it stands there."""

    text: str


Block = Table | Facts | Lines | Code
