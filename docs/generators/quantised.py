"""What reading a quantised model costs: a block for docs/how-to/quantised.md, from results/quantised_reading.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "quantised_reading.json"
SHOWN = {
    "fp8": "8-bit floats, a scale for 128 by 128",
    "int8": "8-bit whole numbers, a scale for each row",
    "int4": "compressed-tensors, 4 bits, groups of 128",
    "int4-zeros": "the same with zero points",
    "nvfp4": "NVFP4",
    "nf4": "NF4 of bitsandbytes",
    "mxfp4": "MXFP4 of gpt-oss",
    "gptq": "GPTQ of 4 bits",
    "awq": "AWQ",
}
WAYS = ("bytes", "float32", "merge")


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {"how-to/quantised.md": {"quantised": table(json.loads(RESULTS.read_text()))}}


def table(found: dict[str, Any]) -> str:
    """A line for each format: its times as multiples of bfloat16's."""
    rows = {(row["format"], row["way"]): row for row in found["rows"]}
    said = (
        "CPU time of one thread as a multiple of bfloat16's, from the page cache: medians of "
        f"{found['repeats']} rounds, "
        f"{found['numbers'] / 1e6:.0f} M numbers, the middle half of the rounds in brackets. The first column reads "
        "the numbers as the format that they are offered in, the second as float32, the third is a whole linear merge "
        "of two such models, written to disk. The last is the memory of a process that reads the model."
    )
    lines = ["", said, "", "| | read | read as float32 | linear merge | memory |", "|---|---:|---:|---:|---:|"]
    for name, shown in {"bf16": "bfloat16", **SHOWN}.items():
        cells = (rows[name, way] for way in WAYS)
        times = " | ".join(f"{row['ratio']:.2f} ({row['ratio_from']:.2f} to {row['ratio_to']:.2f})" for row in cells)
        lines.append(f"| {shown} | {times} | {rows[name, 'bytes']['peak_bytes'] / 1e6:.0f} MB |")
    over = [shown for name, shown in SHOWN.items() if rows[name, "merge"]["ratio"] > found["goal"]]
    goal = f"Our goal is at most {found['goal']} times. Whole merges miss it for: {', '.join(over) or 'none'}. "
    return "\n".join(
        [*lines, "", goal + "What is read alone misses it for most: copying bfloat16 is all but free.", ""]
    )
