"""A language suite of two specialists that is checked by hand (`pico_language`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pico_language import FOLLOWS, write_language_model, write_language_task

ENTRIES: dict[str, Any] = {
    "average": {"label": "Model Soup", "merge": "average"},
    "task_arithmetic": {
        "label": "Task Arithmetic",
        "merge": {"task_arithmetic": {"scale": 0.3}},
        "tune": {"task_arithmetic.scale": [0.1, 0.5]},
    },
}


def write_language_suite(root: Path, **words: Any) -> Path:
    """Models, tasks and the suite's YAML in a folder; `words` change the suite."""
    models = {name: str(write_language_model(root / "models" / name, table)) for name, table in FOLLOWS.items()}
    tasks = {
        "up": [("a", "b"), ("c", "d")],
        "up-more": [("a", "b"), ("g", "h")],
        "down": [("e", "f")],
        "up-val": [("c", "d"), ("g", "g")],
        "down-val": [("e", "f"), ("h", "h")],
        "still": [("g", "g"), ("h", "h"), ("a", "a")],
    }
    splits = {"up": ("train", "test"), "down": ("train", "test"), "up-val": ("val",), "down-val": ("val",)}
    place = {
        name: str(write_language_task(root / "tasks" / name, answers, splits=splits.get(name, ("test",))))
        for name, answers in tasks.items()
    }
    suite = {
        "kind": "language",
        "name": "pico-language",
        "version": 1,
        "title": "Two specialists of one pico model",
        "pool": {"base": models["base"], "models": {"up": models["up"], "down": models["down"]}},
        "multitask": models["both"],
        "domains": {
            "up": {"tests": [place["up"], place["up-more"]], "validation": place["up-val"]},
            "down": {"tests": [place["down"]], "validation": place["down-val"]},
        },
        "general": [place["still"]],
        "include": ["model.layers.*"],
        "entries": ENTRIES,
        "presets": {
            "fast": {
                "limit": 1,
                "experts": "own",
                "entries": {"task_arithmetic": {"tune": {"task_arithmetic.scale": [0.5]}}},
            }
        },
    }
    path = root / "pico-language.yaml"
    path.write_text(yaml.safe_dump({**suite, **words}, sort_keys=False))
    return path
