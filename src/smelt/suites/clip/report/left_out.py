"""What a family of models leaves out of a suite, in the table: a line of dashes with the reason, under a heading."""

from __future__ import annotations

from dataclasses import replace

from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.clip.family_note import FamilyNote

__all__ = ["LEFT_OUT", "with_left_out"]

LEFT_OUT = "left-out"
"""The group of these lines, which is no group of merges: nothing counts or ranks them."""


def with_left_out(sheet: Sheet, note: FamilyNote) -> Sheet:
    """The same table with the entries that were not run, below all others; one without lines as it is."""
    if not sheet.lines or not note.left_out:
        return sheet
    blocks = tuple(replace(block, grid=_more(block.grid, note)) for block in sheet.blocks)
    summary = with_left_out(sheet.summary, note) if sheet.summary else None
    return replace(sheet, blocks=blocks, summary=summary)


def _more(grid: Grid, note: FamilyNote) -> Grid:
    cells = (None,) * len(grid.tasks)
    there = {line.entry for line in grid.lines}
    more = [
        TableLine(name, "published", one.label, {}, LEFT_OUT, cells, (), note=one.reason)
        for name, one in note.left_out.items()
        if name not in there
    ]
    headings = {**grid.headings, LEFT_OUT: f"Left out of {note.family}"}
    return replace(grid, lines=(*grid.lines, *more), headings=headings)
