"""A study that is small enough to check by hand.

The towers are those of `colour_clip`, turned: picture tower k calls colour c the colour (c + k) % 3. The base is turned
by one, the only model, `plain`, by nothing, so at scale s the merge is (1 - s) base + s plain and its answers jump from
the base's to the model's at 1/2. Tasks `first` and `second` ask for the true colours, `third` for the base's: below
1/2 the scores are 0, 0, 1 and above it 1, 1, 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import yaml

from pico_clip import colour_clip, save_clip, write_task

LOW = {"first": 0.0, "second": 0.0, "third": 1.0}
HIGH = {"first": 1.0, "second": 1.0, "third": 0.0}
SCALES = [0.2, 0.4, 0.6, 0.8, 1.0]


def write_models(root: Path) -> None:
    for name, turn in {"base": 1, "plain": 0}.items():
        model = colour_clip()
        weight = model.vision_model.embeddings.patch_embedding.weight
        with torch.no_grad():
            weight[:3] = weight[:3].roll(turn, 0)
        save_clip(model, root / "models" / name)
    few = {"red": 2, "green": 3, "blue": 1}
    write_task(root / "tasks" / "first", few)
    write_task(root / "tasks" / "second", few)
    write_task(root / "tasks" / "third", few, classes=["green", "blue", "red"])


def write_recipe(root: Path, name: str = "recipe", **words: Any) -> Path:
    """A recipe beside the models, with relative references; `words` change it."""
    content = {
        "pool": {"base": "models/base", "models": {"plain": "dir:models/plain"}},
        "merge": "task_arithmetic",
        "include": ["vision_model.*"],
        "tune": {"task_arithmetic.scale": SCALES},
        **words,
    }
    path = root / f"{name}.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return path


def tasks(root: Path) -> list[str]:
    return [str(root / "tasks" / name) for name in ("first", "second", "third")]
