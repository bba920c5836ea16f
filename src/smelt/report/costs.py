"""Time and memory per method as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smelt.evaluate.row import CostRow
from smelt.report.grid import Grid

__all__ = ["Cost", "Costs", "build_costs"]


@dataclass(frozen=True)
class Cost:
    """What one merge took; shares are of the largest of the report, for the length of a bar."""

    label: str
    merge_seconds: float
    evaluate_seconds: float
    peak_bytes: int
    merge_share: float
    peak_share: float


@dataclass(frozen=True)
class Costs:
    """The merges in the order of the table, and where they were made and evaluated. A suite merges on the CPU."""

    lines: tuple[Cost, ...]
    where: str


def build_costs(rows: Iterable[CostRow], grid: Grid) -> Costs | None:
    """One bar per merged entry, at the published setting where there is one. None without rows of cost."""
    order = {(line.entry, line.variant): place for place, line in enumerate(grid.lines) if line.merged}
    labels = {line.entry: line.label for line in grid.lines}
    latest: dict[str, CostRow] = {}
    for row in rows:
        known = latest.get(row.entry)
        if row.variant in ("published", "tuned") and (
            known is None or row.variant == known.variant or row.variant == "published"
        ):
            latest[row.entry] = row
    if not latest:
        return None
    kept = sorted(latest.values(), key=lambda row: order.get((row.entry, row.variant), len(order)))
    slowest = max(row.merge_seconds for row in kept) or 1.0
    largest = max(row.peak_bytes for row in kept) or 1
    lines = tuple(
        Cost(
            labels.get(row.entry, row.entry),
            row.merge_seconds,
            row.evaluate_seconds,
            row.peak_bytes,
            row.merge_seconds / slowest,
            row.peak_bytes / largest,
        )
        for row in kept
    )
    return Costs(lines, _where(kept))


def _where(rows: Iterable[CostRow]) -> str:
    rows = list(rows)
    threads = "/".join(str(number) for number in sorted({row.threads for row in rows}))
    devices = ", ".join(sorted({row.device for row in rows}))
    merged = f"the CPU with {threads} thread{'' if threads == '1' else 's'}"
    return merged if devices == "cpu" else f"{merged}; evaluation on {devices}"
