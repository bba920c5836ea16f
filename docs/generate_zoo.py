"""The zoo's tasks and models as tables, from cards, zoo/build/training.json and results/clip8: for docs/zoo.md."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

ZOO = Path(__file__).parents[1] / "zoo"
CLIP8: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("generate_clip8.py")))
HELD_OUT = {
    "photos": "the official test split",
    "digits": "the official test split",
    "clothing": "the official test split",
    "sketches": "drawings",
    "emoji": "two drawing styles",
    "flags": "three sets of drawings",
    "letters": "{} font families",
    "icons": "{} families of icon sets",
}


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see generate_pages.py."""
    return {"zoo.md": {"tasks": tasks(), "models": models()}}


def tasks() -> str:
    """The zoo's tasks with what their cards say."""
    from smelt.evaluate.splits import count
    from smelt.evaluate.task import Task

    lines = [
        "| task | classes | train / val / test | held out | source | licence |",
        "|---|---:|---:|---|---|---|",
    ]
    for name in CLIP8["grid"]().tasks:
        task = Task.load(ZOO / "src" / "smelt_zoo" / "tasks" / name)
        sizes = " / ".join(f"{count(task, split):,}" for split in task.splits)
        facts = dict(re.findall(r"^- ([\w -]+): (.*)$", task.readme, re.M))
        held = HELD_OUT[name].format(facts.get("held-out families"))
        lines.append(CLIP8["_row"]([name, str(len(task.classes)), sizes, held, facts["source"], facts["licence"]]))
    return "\n".join(lines)


def models() -> str:
    """Each expert on its own task before and after packing, the largest change on any task, and the pack itself."""
    lines = [
        "| model | before packing | as shipped | largest change on any task | error of the change | size |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    folder = ZOO / "src" / "smelt_zoo" / "models"
    size = sum(path.stat().st_size for path in (folder / "clip-tiny").glob("*.safetensors")) / 1e6
    base = 100 * CLIP8["line"]("pretrained", "reference").average.accuracy
    lines.append(CLIP8["_row"](["`zoo:clip-tiny`, mean of all", "", f"{base:.1f}", "", "", f"{size:.1f} MB"]))
    for task in CLIP8["grid"]().tasks:
        pack = folder / f"clip-tiny-{task}"
        change = packing_change(task)
        worst = max(change, key=lambda one: abs(change[one]))
        error = json.loads((pack / "delta.json").read_text())["error"]["relative"]
        size = (pack / "delta.safetensors").stat().st_size / 1e6
        shipped = next(
            100 * row.accuracy for row in CLIP8["rows"]() if (row.entry, row.task) == (f"expert-{task}", task)
        )
        lines.append(
            CLIP8["_row"](
                [
                    f"`zoo:clip-tiny-{task}`",
                    f"{trained()[task][task]:.1f}",
                    f"{shipped:.1f}",
                    f"{change[worst]:+z.2f} ({worst})",
                    f"{error:.3f}",
                    f"{size:.1f} MB",
                ]
            )
        )
    return "\n".join(lines)


def trained() -> dict[str, dict[str, float]]:
    """Accuracies by model and task before packing."""
    found: dict[str, dict[str, float]] = json.loads((ZOO / "build" / "training.json").read_text())["accuracy"]
    return found


def packing_change(own: str) -> dict[str, float]:
    """Points by task that an expert gained by being packed."""
    shipped = {row.task: 100 * row.accuracy for row in CLIP8["rows"]() if row.entry == f"expert-{own}"}
    return {task: shipped[task] - before for task, before in trained()[own].items()}
