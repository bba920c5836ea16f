"""A suite of two experts and two tasks, small enough to be merged in this process and checked by hand.

The towers are those of `colour_clip`, turned: picture tower k calls colour c the colour (c + k) % 3. The base is turned
by one and wrong on both tasks. `plain` asks for the true colours, which the expert `plain` (turned by nothing) knows;
`turned` asks for the colour two further, which the expert `turned` knows. At scale s the change of one expert gives
(1 - s) base + s expert, so the answer jumps from the base's to the expert's at 1/2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from pico_clip import COLOURS, colour_clip, save_clip, write_task

ENTRIES: dict[str, Any] = {
    "average": {"label": "Simple averaging", "merge": "average"},
    "task_arithmetic": {"label": "Task arithmetic", "merge": {"task_arithmetic": {"scale": 0.3}}},
    "emr_masks": {"label": "EMR (masks)", "merge": "emr", "for_task": "emr.task"},
}


def turned_clip(turn: int) -> Any:
    model = colour_clip()
    weight = model.vision_model.embeddings.patch_embedding.weight
    with torch.no_grad():
        weight[:3] = weight[:3].roll(turn, 0)
    return model


def write_suite(root: Path, **words: Any) -> Path:
    """Models, tasks and the suite's YAML in a folder; `words` change the suite."""
    turns = {"base": 1, "plain": 0, "turned": 2}
    models = {name: str(save_clip(turned_clip(turn), root / "models" / name)) for name, turn in turns.items()}
    write_task(root / "tasks" / "plain")
    write_task(root / "tasks" / "turned", classes=["blue", "red", "green"])
    suite = {
        "name": "pico",
        "version": 1,
        "title": "Two experts of one pico model",
        "pool": {"base": models.pop("base"), "models": models},
        "tasks": ["plain", "turned"],
        "include": ["vision_model.*"],
        "scales": [0.25, 0.5, 0.75],
        "curve_limit": 12,
        "points": 3,
        "entries": ENTRIES,
        "paths": [{"start": "plain", "end": "turned", "tasks": ["plain"]}],
    }
    path = root / "pico.yaml"
    path.write_text(yaml.safe_dump({**suite, **words}, sort_keys=False))
    return path


def relabel(root: Path, task: str, split: str, turn: int) -> None:
    """Give the pictures of one split the names of the colours `turn` further."""
    file = root / "tasks" / task / "labels.npz"
    labels = dict(np.load(file))
    np.savez(file, **{**labels, split: (labels[split] + turn) % len(COLOURS)})
