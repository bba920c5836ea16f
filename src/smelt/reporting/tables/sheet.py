"""A printed table: one block of columns, or several beside and below each other that have the same lines.

Every block is a grid of its own, with its own average and places. A plain suite has one block; a line of work may set
several side by side, one for each task, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import TableLine

__all__ = ["ColumnBlock", "Sheet", "printed"]


@dataclass(frozen=True)
class ColumnBlock:
    """Columns that belong together. `key` is their name for programs: `seen`, `motion_blur`."""

    key: str
    title: str
    grid: Grid


Records = Callable[[TableLine, ColumnBlock, "str | None"], Iterator[list[object]]]
"""From a line in a block, and the part of the suite, to its lines of CSV."""


@dataclass(frozen=True)
class Sheet:
    """One table. Lines have the same order in all blocks; each holds all rows of its model."""

    blocks: tuple[ColumnBlock, ...]
    title: str = ""
    about: str = ""
    """What the numbers are, beyond accuracy in percent."""
    across: int = 1
    """Blocks side by side; the others follow below."""
    headings: bool = True
    """Whether lines stand under the headings of their groups."""
    part: str | None = None
    summary: Sheet | None = None
    """The same in short: blocks as columns."""
    dense: bool = False
    """Whether it has so many columns that they stand closely."""
    axis: str = ""
    """What the columns are where they are no tasks: `epoch`, `fraction`."""
    rivals: str = "merge"
    """What competes for places."""
    places: str = "Best merge of a column in bold, second underlined."
    transposed: bool = False
    """Whether lines are printed as columns: tasks down and methods across."""
    measure: str = "Accuracy"
    corner: str = "Method"
    """What stands above the names of a transposed table's rows."""
    made: str = ""
    """How the models of a transposed table were made, which stands beside the names of other tables."""
    extra: str = ""
    """A column of its own in CSV, the last value of every record."""
    records: Records | None = None
    """The lines of CSV where they are not one for each task."""

    @property
    def lines(self) -> tuple[TableLine, ...]:
        return self.blocks[0].grid.lines

    @property
    def split(self) -> str:
        return self.blocks[0].grid.split

    def tiers(self) -> list[tuple[ColumnBlock, ...]]:
        """The blocks as they stand: rows of blocks side by side."""
        return [self.blocks[at : at + self.across] for at in range(0, len(self.blocks), self.across)]

    def groups(self, tier: Sequence[ColumnBlock]) -> list[tuple[str, list[list[TableLine]]]]:
        """Headings, each with its lines; a line is there once for every block of the tier. No headings: one group."""
        every = [list(lines) for lines in zip(*(block.grid.lines for block in tier), strict=True)]
        if not self.headings:
            return [("", every)] if every else []
        titles = {id(line): title for title, lines in tier[0].grid.groups() for line in lines}
        found: dict[str, list[list[TableLine]]] = {}
        for lines in every:
            found.setdefault(titles[id(lines[0])], []).append(lines)
        return list(found.items())

    def note_of(self, line: TableLine) -> str:
        """What stands beside a label; where lines repeat block after block, what the short form does not say."""
        if self.summary is None:
            return line.details
        return "; ".join(filter(None, ["tuned" if line.variant == "tuned" else "", line.loud]))

    def caption(self) -> list[str]:
        """What a reader has to know, sentence by sentence."""
        grids = [block.grid for block in self.blocks]
        said = [f"{self.measure} in % on the {self.split} split.", self.about, self.places]
        if any(grid.larger for grid in grids):
            said.append("Mixtures are larger models and ensembles are several: they are shown and not ranked.")
        if grids[0].tuned_on and not self.transposed:
            said.append(f"Tuned: {grids[0].tuned_on}.")
        return [sentence for sentence in [*said, self.made] if sentence]


def printed(sheets: Iterable[Sheet]) -> list[Sheet]:
    """Every table that a file has, each followed by its short form."""
    return [one for sheet in sheets for one in (sheet, sheet.summary) if one is not None]
