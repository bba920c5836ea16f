"""How much of the gap between base and experts a method closes, with its interval: rows, of one family or of several.

With the means over the tasks p of the base, e of the experts on their own tasks and m of the method:
    S = (m - p) / (e - p)
Its interval is that of the delta method, from the ends of the three means' own 95 % intervals (Zou & Donner 2008):
    dS = (dm - (1 - S) dp - S de) / (e - p)
    below = sqrt((m - m_low)^2 + ((1 - S) p_off)^2 + (S e_off)^2) / (e - p)
where p_off and e_off are the distances to the ends on the side that makes S smaller: the upper ends where 0 < S < 1;
and so upwards. It takes the three for samples of their own. They answered the same pictures, so that it is too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.published import PublishedTable
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.grid import build_grid
from smelt.suites.clip.family_note import FamilyNote

__all__ = ["GapRow", "closed_share", "family_order", "gap_rows", "gap_share", "published_shares"]


@dataclass(frozen=True)
class GapRow:
    """One method at its published setting in one family of models."""

    family: str
    parameters: int
    """Of the vision tower."""
    convolutional: bool
    base: float
    """The mean over the tasks."""
    experts: float
    method: str
    """The suite's entry."""
    label: str
    share: float
    low: float
    high: float

    @property
    def cell(self) -> Cell:
        """The share as a number with its interval."""
        return Cell(self.share, self.low, self.high, 0)


def closed_share(method: float, base: float, experts: float) -> float | None:
    """The share of the way from the base to the experts; None where there is no way."""
    return (method - base) / (experts - base) if experts > base else None


def gap_share(method: Cell, base: Cell, experts: Cell) -> Cell | None:
    """The same with its interval, from three means with theirs."""
    share = closed_share(method.accuracy, base.accuracy, experts.accuracy)
    if share is None:
        return None
    gap = experts.accuracy - base.accuracy
    below = math.hypot(_down(method), (1 - share) * _side(base, 1 - share), share * _side(experts, share))
    above = math.hypot(_up(method), (1 - share) * _side(base, share - 1), share * _side(experts, -share))
    return Cell(share, share - below / gap, share + above / gap, method.n)


def gap_rows(rows: Iterable[Row], note: FamilyNote) -> list[GapRow]:
    """Every merge and mixture at its published setting, in the order of the suite's table; of one family.

    A method that lacks a task is left out, and so are all where the base or an expert lacks one.
    """
    grid = build_grid(row for row in rows if row.corruption is None and row.part is None)
    base, experts = grid.base, grid.experts
    if base is None or experts is None or base.average is None or experts.average is None:
        return []
    found = []
    for line in grid.lines:
        if line.variant != "published" or line.average is None:
            continue
        share = gap_share(line.average, base.average, experts.average)
        if share is not None:
            means = (base.average.accuracy, experts.average.accuracy)
            about = (note.family, note.parameters, note.convolutional, *means, line.entry, line.label)
            found.append(GapRow(*about, share.accuracy, share.low, share.high))
    return found


def family_order(rows: Iterable[GapRow]) -> list[GapRow]:
    """One row of each family: transformers from small to large, then convolutional ones."""
    one = {row.family: row for row in rows}
    return sorted(one.values(), key=lambda row: (row.convolutional, row.parameters))


def published_shares(tables: Sequence[PublishedTable]) -> dict[str, float]:
    """By entry, the share that printed averages give; a method that is printed twice counts as printed first."""
    averages: dict[str, float] = {}
    for table in tables:
        for name, line in table.lines.items():
            if table.average and line.values[-1] is not None:
                averages.setdefault(line.entry or name, line.values[-1])
    ends = averages.pop("pretrained"), averages.pop("experts")
    shares = {entry: closed_share(average, *ends) for entry, average in averages.items()}
    return {entry: share for entry, share in shares.items() if share is not None}


def _down(cell: Cell) -> float:
    return cell.accuracy - cell.low


def _up(cell: Cell) -> float:
    return cell.high - cell.accuracy


def _side(cell: Cell, weight: float) -> float:
    """The distance to the upper end where the share falls as the number rises by that weight, else to the lower one."""
    return _up(cell) if weight >= 0 else _down(cell)
