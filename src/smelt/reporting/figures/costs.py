"""Time and memory per method as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import CostRow
from smelt.reporting.tables.lines import TableLine

__all__ = ["CostTable", "MethodCost", "build_costs"]


@dataclass(frozen=True)
class MethodCost:
    """What one model took; shares are of the largest of the report, for the length of a bar."""

    label: str
    row: CostRow
    prepare_share: float
    merge_share: float
    peak_share: float


@dataclass(frozen=True)
class CostTable:
    """The models in the order of the table, and where they were made and evaluated. A suite merges on the CPU."""

    lines: tuple[MethodCost, ...]
    where: str

    @property
    def prepared(self) -> bool:
        """Whether any of them had to measure or learn something first."""
        return any(line.row.prepare_seconds for line in self.lines)


def build_costs(rows: Iterable[CostRow], lines: Sequence[TableLine]) -> CostTable | None:
    """One bar per entry and part, at the published setting where there is one. None without rows of cost."""
    made = [line for line in lines if line.group not in ("reference", "single")]
    order = {(line.entry, line.variant, line.part): place for place, line in enumerate(made)}
    labels = {line.entry: line.label for line in made}
    latest: dict[tuple[str, str | None], CostRow] = {}
    for row in rows:
        known = latest.get((row.entry, row.part))
        shown = row.variant in ("published", "tuned") or (row.entry, row.variant, row.part) in order
        if shown and (known is None or row.variant == known.variant or row.variant == "published"):
            latest[row.entry, row.part] = row
    if not latest:
        return None
    ordered = sorted(latest.values(), key=lambda row: order.get((row.entry, row.variant, row.part), len(order)))
    longest = max(row.prepare_seconds for row in ordered) or 1.0
    slowest = max(row.merge_seconds for row in ordered) or 1.0
    largest = max(row.peak_bytes for row in ordered) or 1
    costs = tuple(
        MethodCost(
            labels.get(row.entry, row.entry) + (f", {row.part}" if row.part else ""),
            row,
            row.prepare_seconds / longest,
            row.merge_seconds / slowest,
            row.peak_bytes / largest,
        )
        for row in ordered
    )
    return CostTable(costs, _where(ordered))


def _where(rows: Iterable[CostRow]) -> str:
    rows = list(rows)
    threads = "/".join(str(number) for number in sorted({row.threads for row in rows}))
    devices = ", ".join(sorted({row.device for row in rows}))
    merged = f"the CPU with {threads} thread{'' if threads == '1' else 's'}"
    return merged if devices == "cpu" else f"{merged}; evaluation on {devices}"
