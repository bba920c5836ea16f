"""The gap that methods close, family by family, in words: a table and sentences that hold whatever was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from smelt.reporting.tables.cells import surely_above
from smelt.reporting.words import percent, plural
from smelt.suites.clip.report.gap import GapRow, family_order

__all__ = ["gap_sentences", "gap_table", "millions"]

_NONE = "–"


def millions(parameters: int) -> str:
    """2_326_784 → `2.33 M`."""
    return f"{parameters / 1e6:.3g} M"


def gap_table(rows: Sequence[GapRow]) -> list[list[str]]:
    """Methods down, families across: a head, what the families are, then every share in % with its interval."""
    families = family_order(rows)
    at = {(row.method, row.family): row for row in rows}
    count = Counter(row.family for row in rows)
    labels = {row.method: row.label for row in sorted(rows, key=lambda row: -count[row.family])}
    lines = [
        ["", *(one.family for one in families)],
        ["parameters of the vision tower", *(millions(one.parameters) for one in families)],
        ["base, %", *(percent(one.base) for one in families)],
        ["experts, %", *(percent(one.experts) for one in families)],
    ]
    for method, label in labels.items():
        lines.append([label, *(_share(at.get((method, one.family))) for one in families)])
    return lines


def gap_sentences(rows: Sequence[GapRow]) -> list[str]:
    """The best of each family, what grows with the size, and who falls below the base."""
    families = family_order(rows)
    said = [_best([row for row in rows if row.family == one.family]) for one in families]
    towers = [one.family for one in families if not one.convolutional]
    if len(towers) > 1:
        said.append(_growth(rows, towers[0], towers[-1]))
    said += [_below([row for row in rows if row.family == one.family]) for one in families]
    return [sentence for sentence in said if sentence]


def _best(rows: Sequence[GapRow]) -> str:
    best = max(rows, key=lambda row: row.share)
    return (
        f"{best.family}: of {plural(len(rows), 'method')} {best.label} closes most of the gap, {_whole(best.share)} % "
        f"({_whole(best.low)} to {_whole(best.high)})."
    )


def _growth(rows: Sequence[GapRow], small: str, large: str) -> str:
    at = {(row.family, row.method): row for row in rows}
    both = [method for family, method in at if family == large and (small, method) in at]
    pairs = [(at[small, method].cell, at[large, method].cell) for method in both]
    more = sum(surely_above(there, here) for here, there in pairs)
    less = sum(surely_above(here, there) for here, there in pairs)
    higher = sum(there.accuracy > here.accuracy for here, there in pairs)
    return (
        f"{higher} of {len(pairs)} methods close a larger share in {large} than in {small}, {more} of them by more "
        f"than the 95 % interval of the difference; {less} of {len(pairs)} close a smaller share by more than that."
    )


def _below(rows: Sequence[GapRow]) -> str:
    """Those whose whole interval lies below the base."""
    names = [row.label for row in rows if row.high < 0]
    return f"Below the base by more than chance in {rows[0].family}: {', '.join(names)}." if names else ""


def _share(row: GapRow | None) -> str:
    return _NONE if row is None else f"{_whole(row.share)} ({_whole(row.low)} to {_whole(row.high)})"


def _whole(share: float) -> str:
    return f"{100 * share:z.0f}"
