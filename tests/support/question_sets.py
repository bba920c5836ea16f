"""Question sets of a few questions about plain pictures, written to disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def question(number: int, **other: Any) -> dict[str, Any]:
    """One of many questions, with two to four options and prompts of several lengths."""
    names = [*COLOURS, "none at all"]
    colour = names[number % 3]
    options = [names[(number + place) % 4] for place in range(2 + number % 3)]
    text = "Which colour" + " is this" * (number % 2) + "?"
    return {"picture": f"{colour}.png", "question": text, "options": options, "answer": number % len(options), **other}


def write_set(folder: Path, records: Sequence[Any], *, split: str = "test", **words: Any) -> Path:
    """A set with one split; pictures of three colours lie beside it. A record may be a line as it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    draw = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        noise = draw.integers(-40, 40, (8, 8, 3))
        Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(folder / f"{name}.png")
    content = {"name": folder.name, "version": 1, "title": "Colours", "splits": {split: f"{split}.jsonl.gz"}, **words}
    (folder / "questions.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "README.md").write_text("# Colours\n\n## Licence\n\nCC0-1.0\n")
    return folder
