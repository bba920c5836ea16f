"""How near methods that decompose matrices come to their floor: a block for docs/results/speed.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
MISSING = "Not measured yet."


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    path = RESULTS / "matrix.json"
    made = matrix(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else MISSING
    return {"results/speed.md": {"matrix": made}}


def matrix(found: dict[str, Any]) -> str:
    """Speeds, the whole model, and one matrix of each shape."""
    return "\n\n".join([_speeds(found), _whole(found), _each(found), _machine(found)])


def _speeds(found: dict[str, Any]) -> str:
    head = ["threads", "products, float32", "products, float64", "eigenvectors of 1024 × 1024", "of 2048 × 2048"]
    head.append("load of the machine")
    lines = [
        [
            str(one["threads"]),
            f"{one['float32_gflops']:.0f} GFLOP/s",
            f"{one['float64_gflops']:.0f} GFLOP/s",
            f"{one['eigen_1024_s']:.2f} s",
            f"{one['eigen_2048_s']:.2f} s",
            f"{one['load']:.1f}",
        ]
        for one in found["speeds"]
    ]
    return _table(head, lines)


def _whole(found: dict[str, Any]) -> str:
    head = ["all matrices of the model", "floor", "CPU time over the threads", "of the floor"]
    head += ["of the floor with the library's decompositions", "before", "times faster", "peak memory", "before"]
    lines = [
        [
            method,
            f"{total['floor_s']:.0f} s",
            f"{total['s']:.0f} s",
            f"**{total['ratio']:.2f}**",
            f"{total['s'] / total['library_floor_s']:.2f}",
            f"{total['former_s']:.0f} s" if "former_s" in total else "",
            f"{total['former_s'] / total['s']:.1f}" if "former_s" in total else "",
            *(_peak(found["whole"].get(method, {}).get(which)) for which in ("now", "former")),
        ]
        for method, total in found["methods"].items()
    ]
    return _table(head, lines)


def _peak(run: dict[str, Any] | None) -> str:
    return f"{run['peak_anon_bytes'] / 1e6:,.0f} MB" if run else ""


def _each(found: dict[str, Any]) -> str:
    head = ["one matrix", "of which there are", "operations", "floor", "CPU time", "of the floor", "before", "apart"]
    lines = [
        [
            f"{one['method']}, {one['rows']} × {one['columns']}",
            str(one["count"]),
            f"{(one['operations_float64'] + one['operations_float32']) / 1e9:.0f} G",
            f"{one['floor_s']:.2f} s",
            f"{one['cpu_s']:.2f} s",
            f"{one['cpu_s'] / one['floor_s']:.2f}",
            f"{one['former_cpu_s']:.2f} s" if "former_cpu_s" in one else "",
            f"{one['apart']:.0e}" if "apart" in one else "",
        ]
        for one in found["matrices"]
    ]
    return _table(head, lines)


def _machine(found: dict[str, Any]) -> str:
    """Which machine and code it was."""
    made = found["provenance"]
    return (
        f"{found['models']} models and a base of {found['parameters'] / 1e9:.2f} billion parameters, "
        f"{found['threads']} threads. Measured {made['date'][:10]} on {made['cores']} cores of {made['cpu']}, commit "
        f"{made['commit'][:7]}."
    )


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
