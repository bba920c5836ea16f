"""Fill README.md's marked blocks: results/clip8 in a few lines, results/compare.json in a sentence.

tests/docs/test_readme.py holds that the README is current.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "results" / "compare.json"


def fresh(text: str) -> str:
    """The README with its blocks as they should be."""
    for name, content in {"clip8": clip8(), "speed": speed()}.items():
        text = re.sub(
            rf"(<!-- {name}:[^>]*-->\n).*?(<!-- /{name} -->)",
            lambda m, c=content: m[1] + c + "\n" + m[2],
            text,
            flags=re.S,
        )
    return text


def clip8() -> str:
    """A few lines of the suite's table."""
    text: str = runpy.run_path(str(Path(__file__).with_name("clip8.py")))["readme"]()
    return text


def speed() -> str:
    """Ratios and memory over all merges that were compared."""
    faster, peaks = [], []
    for row in json.loads(RESULTS.read_text())["merges"]:
        took = {tool: median(run["wall_s"] for run in runs) for tool, runs in row["runs"].items()}
        faster.append(took["mergekit"] / took["smelt"])
        peaks.append(max(run["peak_anon_bytes"] for run in row["runs"]["smelt"]) / 1e6)
    return (
        f"- **It is fast and small.** Merges of 0.5 B parameters on two CPU cores take {min(peaks):.0f} to "
        f"{max(peaks):.0f} MB of memory, and are\n  {min(faster):.0f} to {max(faster):.0f} times as fast as mergekit's "
        "([all of them](docs/results/speed.md); the first merge of a model also hashes it)."
    )


def write() -> None:
    """Write it."""
    README.write_text(fresh(README.read_text(encoding="utf-8")), encoding="utf-8")
