"""Who is best in a column, and what share of a reference's accuracy a model reaches.

Places are for merges: one model of the experts' own size. A mixture is larger and an ensemble is several models, so
they are shown and take no place; a line of work may let others compete.
The normalised average is the mean over tasks of accuracy / accuracy of the task's own expert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import EXPERTS, TableLine

__all__ = ["normalised", "rank_cells", "share_of", "with_ranks"]


def normalised(lines: Sequence[TableLine]) -> list[TableLine]:
    """The same lines with their share of the experts, where those are known on every task."""
    experts = next((line for line in lines if line.entry == EXPERTS and line.average), None)
    return [replace(line, normalised=_ratio(line, experts)) for line in lines] if experts else list(lines)


def share_of(lines: Sequence[TableLine], entry: str) -> list[TableLine]:
    """The same lines with their average divided by that of one of them."""
    whole = next((line.average for line in lines if line.entry == entry), None)
    if whole is None or not whole.accuracy:
        return list(lines)
    return [replace(m, normalised=m.average.accuracy / whole.accuracy if m.average else None) for m in lines]


def with_ranks(
    lines: Sequence[TableLine], competes: Callable[[TableLine], bool] = lambda line: line.merged
) -> list[TableLine]:
    """The same lines with the best and the second of every column marked, among those that compete."""
    rivals = [line for line in lines if competes(line)]
    tasks = len(lines[0].cells) if lines else 0
    columns = [_places([_accuracy(m.cells[t]) for m in rivals]) for t in range(tasks)]
    averages = _places([_accuracy(m.average) for m in rivals])
    ratios = _places([-1.0 if m.normalised is None else m.normalised for m in rivals])
    gaps = _places([-1.0 if m.gap is None else m.gap for m in rivals], lowest=True)

    def ranked(line: TableLine) -> TableLine:
        if not competes(line):
            return line
        return replace(
            line,
            cells=tuple(_placed(cell, column) for cell, column in zip(line.cells, columns, strict=True)),
            average=_placed(line.average, averages),
            normalised_rank=0 if line.normalised is None else ratios.get(line.normalised, 0),
            gap_rank=0 if line.gap is None else gaps.get(line.gap, 0),
        )

    return [ranked(line) for line in lines]


def rank_cells(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """The same numbers, which compete with each other along a line."""
    found = _places([_accuracy(cell) for cell in cells])
    return tuple(_placed(cell, found) for cell in cells)


def _placed(cell: Cell | None, places: dict[float, int]) -> Cell | None:
    return cell and replace(cell, rank=places.get(_accuracy(cell), 0))


def _places(values: Sequence[float], *, lowest: bool = False) -> dict[float, int]:
    """The best value and the second best, where there is more than one model to compare; below 0: not known."""
    best = sorted({value for value in values if value >= 0}, reverse=not lowest)[:2]
    return {value: place for place, value in enumerate(best, 1)} if len(values) > 1 else {}


def _ratio(line: TableLine, experts: TableLine) -> float | None:
    pairs = list(zip(line.cells, experts.cells, strict=True))
    ratios = [a.accuracy / b.accuracy for a, b in pairs if a and b and b.accuracy > 0]
    return sum(ratios) / len(ratios) if len(ratios) == len(pairs) else None


def _accuracy(cell: Cell | None) -> float:
    return -1.0 if cell is None or not cell.whole else cell.accuracy
