"""Fill README.md's marked blocks: methods from the registry, results/clip8 in short, results/compare.json.

tests/docs/test_readme.py holds that the README is current.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "results" / "compare.json"
_HEADINGS = {
    "method": "methods",
    "step": "steps, before a method",
    "basis": "bases, around it",
    "wrapper": "wrappers, after it",
}


def fresh(text: str) -> str:
    """The README with its blocks as they should be."""
    for name, content in {"methods": methods(), "clip8": clip8(), "benchmark": benchmark()}.items():
        text = re.sub(
            rf"(<!-- {name}:[^>]*-->\n).*?(<!-- /{name} -->)",
            lambda m, c=content: m[1] + c + "\n" + m[2],
            text,
            flags=re.S,
        )
    return text


def methods() -> str:
    """One line per stage, with its equation's page."""
    stages = runpy.run_path(str(Path(__file__).with_name("methods.py")))["own_stages"]()
    lines = ["| | what it does |", "|---|---|"]
    for kind, heading in _HEADINGS.items():
        lines.append(f"| **{heading}** | |")
        for stage in stages:
            if stage.kind == kind:
                what = (stage.summary.partition(": ")[2] or stage.summary).replace("|", r"\|")
                lines.append(f"| [{stage.name}](docs/reference/methods/{stage.name}.md) | {what} |")
    return "\n".join(lines)


def clip8() -> str:
    """A few lines of the suite's table."""
    text: str = runpy.run_path(str(Path(__file__).with_name("clip8.py")))["readme"]()
    return text


def benchmark() -> str:
    """Seconds, ratios and memory of both tools, as measured."""
    if not RESULTS.exists():
        return "Not measured yet: `make benchmark`."
    data = json.loads(RESULTS.read_text())
    head = "| merge | mergekit 0.1.5 | Smelt | ratio | memory, mergekit | memory, Smelt | floor |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|"]
    for row in data["merges"]:
        lines.append(f"| {row['name']} | " + " | ".join(_cells(row)) + f" | {row['floor_s']:.2f} s |")
    for row in data["start_up"]:
        lines.append(f"| `{row['name']}` | " + " | ".join(_cells(row, memory=False)) + " | | | |")
    for row in data.get("scaling", []):
        lines.append(f"| linear, {row['name']} tiny tensors | " + " | ".join(_cells(row, memory=False)) + " | | | |")
    return "\n".join(lines)


def _cells(row: dict[str, Any], memory: bool = True) -> list[str]:
    seconds, anon = {}, {}
    for tool, runs in row["runs"].items():
        seconds[tool] = median(run["wall_s"] for run in runs)
        anon[tool] = max(run["peak_anon_bytes"] for run in runs) / 1e6
    cells = [f"{seconds[tool]:.2f} s" for tool in ("mergekit", "smelt")]
    cells.append(f"{seconds['mergekit'] / seconds['smelt']:.1f}×")
    return cells + ([f"{anon[tool]:,.0f} MB" for tool in ("mergekit", "smelt")] if memory else [])


def write() -> None:
    """Write it."""
    README.write_text(fresh(README.read_text(encoding="utf-8")), encoding="utf-8")
