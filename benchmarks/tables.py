"""Results as Markdown tables.

In: rows as `compare.py` gathers them. Out: text. A run that failed shows its error in its cell and in full below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agreement import Agreement
    from measure import Measurement


FIRST = "smelt, first"
"""The runs of a merge that knows no hash of its inputs."""
_TELLING = 0.02  # seconds: below it the start of a process is all that a ratio to the floor would show


@dataclass
class Row:
    """One thing that was run with each tool, some times."""

    name: str
    runs: dict[str, list[Measurement]] = field(default_factory=dict)
    floor_s: float | None = None
    agreement: Agreement | None = None

    def error(self, tool: str) -> str:
        """The first failure of the tool, or nothing."""
        return next((run.error for run in self.runs.get(tool, []) if run.returncode or run.error), "")

    def seconds(self, tool: str) -> float | None:
        """The median wall time, or None if the tool failed or was not run."""
        runs = self.runs.get(tool, [])
        return median(run.wall_s for run in runs) if runs and not self.error(tool) else None


def merge_table(rows: Sequence[Row]) -> str:
    """Time, memory, floor and agreement of each method."""
    head = ["method", "mergekit s", "smelt s", "ratio", "first s", "ratio", "first / later"]
    head += ["mergekit peak anon MB", "smelt peak anon MB", "floor s", "max abs difference", "elements that differ"]
    body = [
        [
            row.name,
            *_times(row),
            *_first(row),
            _anon(row, "mergekit"),
            _anon(row, "smelt"),
            _number(row.floor_s, 2),
            *_agreement(row),
        ]
        for row in rows
    ]
    return _table(head, body)


def time_table(first: str, rows: Sequence[Row]) -> str:
    """Time alone."""
    return _table([first, "mergekit s", "smelt s", "ratio"], [[row.name, *_times(row)] for row in rows])


def growth_table(first: str, rows: Sequence[Row]) -> str:
    """How one tool grows: time beside the floor, bytes moved, memory; the other tool's time where it was run."""
    head = [first, "smelt s", "floor s", "of the floor", "GB read", "GB written", "smelt peak anon MB"]
    others = any("mergekit" in row.runs for row in rows)
    head += ["mergekit s", "mergekit peak anon MB", "times faster"] if others else []
    body = []
    for row in rows:
        seconds, floor = row.seconds("smelt"), row.floor_s
        ratio = f"{seconds / floor:.1f}×" if seconds and floor and floor >= _TELLING else "-"
        moved = [f"{_most(row, 'smelt', kind) / 1e9:.2f}" for kind in ("read_bytes", "written_bytes")]
        cells = [row.name, _times(row)[1], _number(floor, 2), ratio, *moved, _anon(row, "smelt")]
        theirs, _, faster = _times(row)
        more = [theirs, _anon(row, "mergekit"), faster] if "mergekit" in row.runs else ["-"] * 3
        body.append(cells + (more if others else []))
    return _table(head, body)


def failures(rows: Iterable[Row]) -> str:
    """What went wrong, in full; empty when nothing did."""
    parts = []
    for row in rows:
        parts += [f"{row.name}, {tool}:\n\n```\n{row.error(tool)}\n```" for tool in row.runs if row.error(tool)]
        if row.agreement and row.agreement.problems:
            parts.append(f"{row.name}, tensors:\n\n```\n" + "\n".join(row.agreement.problems[:20]) + "\n```")
    return "\n\n".join(parts)


def busiest(rows: Iterable[Row]) -> float:
    """The most cores that other processes kept busy during a run of a second or more (the kernel counts in ticks)."""
    runs = [run for row in rows for many in row.runs.values() for run in many if run.wall_s >= 1]
    return max((run.other_cpu_s / run.wall_s for run in runs), default=0.0)


def _times(row: Row) -> list[str]:
    cells = []
    for tool in ("mergekit", "smelt"):
        error = row.error(tool)
        cells.append(f"error: {_short(error)}" if error else _number(row.seconds(tool), 2))
    theirs, ours = row.seconds("mergekit"), row.seconds("smelt")
    return [*cells, f"{theirs / ours:.1f}×" if theirs and ours else "-"]


def _first(row: Row) -> list[str]:
    """The time of a first merge, how much faster it is than mergekit's, and how much slower than a later one."""
    theirs, first, later = (row.seconds(tool) for tool in ("mergekit", FIRST, "smelt"))
    faster = f"{theirs / first:.1f}×" if theirs and first else "-"
    return [_number(first, 2), faster, f"{first / later:.2f}" if first and later else "-"]


def _anon(row: Row, tool: str) -> str:
    if row.seconds(tool) is None:
        return "-"
    return f"{max(run.peak_anon_bytes for run in row.runs[tool]) / 1e6:.0f}"


def _most(row: Row, tool: str, field: str) -> int:
    return max((getattr(run, field) for run in row.runs.get(tool, [])), default=0)


def _agreement(row: Row) -> list[str]:
    found = row.agreement
    if found is None:
        return ["-", "-"]
    if found.problems:
        return [f"tensors that do not match: {len(found.problems)}", "-"]
    if found.max_abs_difference is None:
        return ["random", "-"]
    return [f"{found.max_abs_difference:.2g}", f"{found.differing_share:.2%}"]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _short(error: str) -> str:
    last = error.strip().splitlines()[-1].strip().replace("|", "\\|")
    return last if len(last) <= 80 else last[:77] + "..."


def _table(head: list[str], body: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *body])
