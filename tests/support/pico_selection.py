"""Small selections: CLIP models around one that knows colours, and LLaVAs with a question set, on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from checkpoints import write_yaml
from pico_clip import colour_clip, save_clip, write_task

NAMES = ("near", "far", "wild")


def write_clips(root: Path) -> Path:
    """A base that knows colours and three models moved away from it, ever further, with a task; the recipe's path."""
    save_clip(colour_clip(), root / "base")
    for seed, (name, amount) in enumerate(zip(NAMES, (0.05, 0.3, 1.0), strict=True)):
        save_clip(_moved(amount, seed), root / name)
    write_task(root / "colours", {"red": 4, "green": 4, "blue": 4})
    return write_recipe(root)


def write_recipe(root: Path, name: str = "recipe", **words: Any) -> Path:
    content = {"pool": {"base": "base", "models": {one: one for one in NAMES}}, "merge": "average"}
    return write_yaml(root / f"{name}.yaml", {**content, **words})


def _moved(amount: float, seed: int) -> Any:
    model, draw = colour_clip(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            if name.startswith("vision_model.") and tensor.ndim > 1:
                tensor.add_(amount * torch.randn(tensor.shape, generator=draw))
    return model


def write_questions(folder: Path, n: int = 6, answers: bool = True) -> Path:
    """A question set about pictures of noise, with two or three options."""
    folder.mkdir(parents=True)
    draw, lines = np.random.default_rng(0), []
    for number in range(n):
        pixels = draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        options = ["cat", "dog", "fox"][: 2 + number % 2]
        record = {"picture": f"{number}.png", "question": "What is it?", "options": options}
        lines.append(json.dumps({**record, "answer": number % 2 if answers else None}))
    (folder / "test.jsonl").write_text("\n".join(lines) + "\n")
    write_yaml(folder / "questions.yaml", {"name": folder.name, "version": 1, "splits": {"test": "test.jsonl"}})
    (folder / "README.md").write_text("# Noise\n\n## Licence\n\nCC0.\n")
    return folder
