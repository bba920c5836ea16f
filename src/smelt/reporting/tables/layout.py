"""A table as it is printed, before the marks of a format: headings, tiers of blocks, groups of lines, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.reporting.tables.transposed import Number, transposed_heads, transposed_rows

__all__ = ["PrintedLine", "PrintedTier", "printed_heads", "printed_tiers"]


@dataclass(frozen=True)
class PrintedLine:
    """A label with what stands beside it, and (value, rank) for every column. `mean`: over the lines above it."""

    label: str
    note: str
    numbers: list[tuple[float | None, int]]
    mean: bool = False


@dataclass(frozen=True)
class PrintedTier:
    """Blocks side by side: their titles with their widths, none where no block has one; then groups of lines."""

    titles: list[tuple[str, int]]
    groups: list[tuple[str, list[PrintedLine]]]


def printed_heads(sheet: Sheet) -> list[str]:
    """The headings after the first."""
    if sheet.transposed:
        return [head.text for head in transposed_heads(sheet)]
    return [name for block in sheet.tiers()[0] for name in block.grid.heads]


def printed_tiers(sheet: Sheet) -> list[PrintedTier]:
    """Everything below the headings."""
    if not sheet.transposed:
        return [_tier(sheet, tier) for tier in sheet.tiers()]
    groups = [
        (title, [PrintedLine(one.label, one.note, [_pair(n) for n in one.numbers], one.mean) for one in rows])
        for title, rows in transposed_rows(sheet)
    ]
    return [PrintedTier([], groups)]


def _tier(sheet: Sheet, tier: Sequence[ColumnBlock]) -> PrintedTier:
    titles = [(block.title, len(block.grid.heads)) for block in tier]
    groups = []
    for title, members in sheet.groups(tier):
        lines = []
        for same in members:
            numbers = [one for line, block in zip(same, tier, strict=True) for one in block.grid.numbers(line)]
            lines.append(PrintedLine(same[0].label, sheet.note_of(same[0]), numbers))
        groups.append((title, lines))
    return PrintedTier(titles if any(title for title, _ in titles) else [], groups)


def _pair(number: Number | None) -> tuple[float | None, int]:
    return (None, 0) if number is None else (number.value, number.rank)
