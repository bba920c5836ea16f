"""One case, both tools, one row."""

from __future__ import annotations

from typing import Any

from parity_cases import Case
from parity_record import Distance, Record, Row


def compare(case: Case, config: dict[str, Any], mergekit: Any, smelt: Any, record: Record, pool: str) -> None:
    """Merge with both, keep the row, and fail where they are further apart than the case allows.

    A delicate case is measured against mergekit in float64, and the row says how far its float32 was off.
    """
    ours = smelt(config)
    distance, note = Distance.between(ours, mergekit(config)), ""
    if case.delicate and distance.relative > case.tolerance:
        note = f"mergekit in float64; its float32 is off in {distance.share:.3%} of the entries: {case.delicate}"
        exact = {**config, "dtype": "float64", "out_dtype": "float32"}
        distance = Distance.between(ours, mergekit(exact))
    same = distance.relative <= case.tolerance
    record.add(
        Row(
            case.method,
            case.name,
            pool,
            "exact",
            distance.absolute,
            distance.relative,
            case.tolerance,
            "same" if same else "differs",
            note,
        )
    )
    assert same, f"{case.id} ({pool}): {distance}"
