"""Who is best in a column, and what share of the experts' accuracy a model reaches.

Places are for merges: one model of the experts' own size. A mixture is larger and an ensemble is several models, so
they are shown and take no place.
The normalised average is the mean over tasks of accuracy / accuracy of the task's own expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import Line

__all__ = ["normalised", "places", "with_ranks"]


def normalised(lines: Sequence[Line]) -> list[Line]:
    """The same lines with their share of the experts, where those are known on every task."""
    experts = next((line for line in lines if line.entry == "experts" and line.average), None)
    return [replace(line, normalised=_ratio(line, experts)) for line in lines] if experts else list(lines)


def with_ranks(lines: Sequence[Line]) -> list[Line]:
    """The same lines with the best and the second merge of every column marked."""
    merges = [line for line in lines if line.merged]
    tasks = len(lines[0].cells) if lines else 0
    columns = [places([_accuracy(m.cells[t]) for m in merges]) for t in range(tasks)]
    averages = places([_accuracy(m.average) for m in merges])
    ratios = places([-1.0 if m.normalised is None else m.normalised for m in merges])

    def ranked(line: Line) -> Line:
        if not line.merged:
            return line
        cells = tuple(_placed(cell, column) for cell, column in zip(line.cells, columns, strict=True))
        ratio = 0 if line.normalised is None else ratios.get(line.normalised, 0)
        return replace(line, cells=cells, average=_placed(line.average, averages), normalised_rank=ratio)

    return [ranked(line) for line in lines]


def _ratio(line: Line, experts: Line) -> float | None:
    pairs = list(zip(line.cells, experts.cells, strict=True))
    ratios = [a.accuracy / b.accuracy for a, b in pairs if a and b and b.accuracy > 0]
    return sum(ratios) / len(ratios) if len(ratios) == len(pairs) else None


def _placed(cell: Cell | None, places: dict[float, int]) -> Cell | None:
    return cell and replace(cell, rank=places.get(_accuracy(cell), 0))


def places(values: Sequence[float], *, lowest: bool = False) -> dict[float, int]:
    """The best value and the second best, where there is more than one model to compare; below 0: not known."""
    best = sorted({value for value in values if value >= 0}, reverse=not lowest)[:2]
    return {value: place for place, value in enumerate(best, 1)} if len(values) > 1 else {}


def _accuracy(cell: Cell | None) -> float:
    return -1.0 if cell is None or not cell.whole else cell.accuracy
