"""What merging with data costs beside a plain reference and FusionBench: blocks for docs/results/data-speed.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {"results/data-speed.md": {"reference": reference(), "fusionbench": fusionbench()}}


def reference() -> str:
    """Every comparison with a plain reference."""
    lines = [
        "| | Smelt | reference | times faster | numbers apart | peak memory, Smelt | reference |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    step = _read("learning")
    lines.append(
        f"| one AdaMerging step, 8 models × 16 pictures | {step['ours_s']:.2f} s | {step['reference_s']:.2f} s "
        f"| {step['ratio']:.1f} | {step['difference']:.0e} | {_mb(step['ours_peak_bytes'])} "
        f"| {_mb(step['reference_peak_bytes'])} |"
    )
    mixed = _read("mixing")
    mine = next(one for name, one in mixed.items() if name not in ("sums", "one product"))
    for name, what in (("sums", "a loop that adds expert to expert"), ("one product", "a loop with one product each")):
        other = mixed[name]
        cells = [
            f"mixture, {mine['pictures']} pictures, against {what}",
            f"{mine['seconds']:.2f} s",
            f"{other['seconds']:.2f} s",
            f"{other['seconds'] / mine['seconds']:.1f}",
            f"{other['max_difference']:.0e}",
            f"{mine['peak_mb']:.0f} MB",
            f"{other['peak_mb']:.0f} MB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for one in _read("measuring")["outcomes"]:
        ours, theirs = one["ours"], one["reference"]
        cells = [
            f"{one['what']}, {one['task']} ({one['classes']} classes), a picture",
            f"{1e3 * ours['seconds_each']:.1f} ms",
            f"{1e3 * theirs['seconds_each']:.1f} ms",
            f"{one['ratio']:.1f}",
            f"{one['difference']:.0e}",
            f"+{_mb(ours['peak_bytes'])}",
            f"+{_mb(theirs['peak_bytes'])}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fusionbench() -> str:
    """FusionBench's own code on the same arrays."""
    found = _read("fusionbench")
    names = {
        "adamerging": "one layer-wise AdaMerging step",
        "wemoe": "mixture with gates for each picture, 32 pictures",
        "fisher": f"its Fisher estimator, {found['provenance']['pictures']} pictures",
        "gram": f"Gram matrices, {found['provenance']['pictures']} pictures",
    }
    lines = ["| | Smelt | FusionBench 0.2.33 | times faster | numbers apart |", "|---|---:|---:|---:|---:|"]
    for what, one in found["results"].items():
        lines.append(
            f"| {names[what]} | {one['smelt']['seconds']:.2f} s | {one['fusionbench']['seconds']:.2f} s "
            f"| {one['ratio']:.1f} | {one['apart']:.0e} |"
        )
    return "\n".join(lines)


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _mb(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"
