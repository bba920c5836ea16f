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
    "emoji": "other vendors",
    "flags": "other drawings",
    "letters": "other font families",
    "icons": "icon sets of other authors",
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
        cells = [name, str(len(task.classes)), sizes, HELD_OUT[name], facts["source"], facts["licence"]]
        lines.append(CLIP8["_row"](cells))
    return "\n".join(lines)


def models() -> str:
    """Each expert on its own task before and after packing, the largest change on any task, and the pack itself."""
    lines = [
        "| model | before packing | packed | largest change on any task | error of the change | size | on `test` now |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    folder = ZOO / "src" / "smelt_zoo" / "models"
    size = sum(path.stat().st_size for path in (folder / "clip-tiny").glob("*.safetensors")) / 1e6
    base = 100 * CLIP8["line"]("pretrained", "reference").average.accuracy
    lines.append(CLIP8["_row"](["`zoo:clip-tiny`, mean of all", "", "", "", "", f"{size:.1f} MB", f"{base:.1f}"]))
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
                    f"{training()['accuracy'][task][task]:.1f}",
                    f"{training()['packed'][task][task]:.1f}",
                    f"{change[worst]:+z.2f} ({worst})",
                    f"{error:.3f}",
                    f"{size:.1f} MB",
                    f"{shipped:.1f}",
                ]
            )
        )
    return "\n".join(lines)


def training() -> dict[str, Any]:
    """What the run that made the models wrote down: `accuracy` before packing, `packed` after, on the same pictures."""
    found: dict[str, Any] = json.loads((ZOO / "build" / "training.json").read_text())
    return found


def packing_change(own: str) -> dict[str, float]:
    """Points by task that an expert gained by being packed."""
    before, after = training()["accuracy"][own], training()["packed"][own]
    return {task: after[task] - before[task] for task in before}
