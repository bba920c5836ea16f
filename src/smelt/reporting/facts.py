"""What all rows of a report share: the suite, where and when it was measured, by which code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smelt.evaluation.row import Row

__all__ = ["facts", "is_zoo", "suite_name"]


def suite_name(rows: Iterable[Row]) -> str | None:
    """The suite of the rows, if they are of one."""
    return next((row.suite for row in rows if row.suite), None)


def is_zoo(rows: Iterable[Row]) -> bool:
    """Whether any model is one of those that come with Smelt."""
    return any(row.model.startswith("zoo:") for row in rows)


def facts(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Device, precision, seed, code version and time, as (name, text)."""

    def every(values: Iterable[object]) -> str:
        return ", ".join(sorted({str(value) for value in values}))

    days = sorted(row.when for row in rows)
    return (
        ("Device", every(row.device for row in rows) + _merged_elsewhere(rows)),
        ("Precision", every(row.dtype for row in rows)),
        ("Seed", every(row.seed for row in rows)),
        ("Code", every(row.code for row in rows)),
        ("Measured", days[0][:10] if days[0][:10] == days[-1][:10] else f"{days[0][:10]} to {days[-1][:10]}"),
    )


def _merged_elsewhere(rows: Iterable[Row]) -> str:
    """A row's device is where the model was evaluated; a suite merges on the CPU whatever that is."""
    other = any(row.suite and row.variant in ("published", "tuned") and row.device.split()[0] != "cpu" for row in rows)
    return " for evaluation; models were merged on the CPU" if other else ""
