"""A printed table: one block of columns, or several beside and below each other that have the same lines.

A plain suite has one block. A part of a suite has seen and unseen tasks side by side; corrupted pictures have a block
for each kind; merging beside ensembling has one for each task. Every block is a grid of its own, with its own average
and places.
"""

from __future__ import annotations

from dataclasses import dataclass

from smelt.reporting.tables.grid import Grid, Line

__all__ = ["Block", "Sheet"]


@dataclass(frozen=True)
class Block:
    """Columns that belong together. `key` is their name for programs: `seen`, `motion_blur`."""

    key: str
    title: str
    grid: Grid


@dataclass(frozen=True)
class Sheet:
    """One table. Lines have the same order in all blocks; each holds all rows of its model."""

    blocks: tuple[Block, ...]
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
    levels: bool = False
    """Whether merging stands beside ensembling: a block for each task, and the last for their average."""
    axis: str = ""
    """What the columns are where they are no tasks: `epoch`, `fraction`."""
    places: str = "Best merge of a column in bold, second underlined."
    turned: bool = False
    """Whether lines are printed as columns: tasks down and methods across (`turned`)."""
    measure: str = "Accuracy"
    corner: str = "Method"
    """What stands above the names of a turned table's rows."""
    made: str = ""
    """How the models of a turned table were made: settings and data, which stand beside the names of other tables."""

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.blocks[0].grid.lines

    @property
    def split(self) -> str:
        return self.blocks[0].grid.split

    def tiers(self) -> list[tuple[Block, ...]]:
        """The blocks as they stand: rows of blocks side by side."""
        return [self.blocks[at : at + self.across] for at in range(0, len(self.blocks), self.across)]

    def groups(self, tier: tuple[Block, ...]) -> list[tuple[str, list[list[Line]]]]:
        """Headings, each with its lines; a line is there once for every block of the tier. No headings: one group."""
        every = [list(lines) for lines in zip(*(block.grid.lines for block in tier), strict=True)]
        if not self.headings:
            return [("", every)] if every else []
        titles = {id(line): title for title, lines in tier[0].grid.groups() for line in lines}
        found: dict[str, list[list[Line]]] = {}
        for lines in every:
            found.setdefault(titles[id(lines[0])], []).append(lines)
        return list(found.items())

    def caption(self) -> list[str]:
        """What a reader has to know, sentence by sentence."""
        grids = [block.grid for block in self.blocks]
        said = [f"{self.measure} in % on the {self.split} split.", self.about, self.places]
        if any(grid.larger for grid in grids):
            said.append("Mixtures are larger models and ensembles are several: they are shown and not ranked.")
        if grids[0].tuned_on and not self.turned:
            said.append(f"Tuned: {grids[0].tuned_on}.")
        return [sentence for sentence in [*said, self.made] if sentence]
