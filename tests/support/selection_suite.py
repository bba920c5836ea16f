"""A selection suite of three pico LLaVAs and four small question sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from pico_selection import write_questions

CHANGES = {"mild": 0.05, "bold": 0.2, "wild": 0.6}


def write_selection_suite(root: Path, **words: Any) -> Path:
    """Models, sets and the suite's YAML in a folder; `words` change the suite."""
    from smelt.testing.pico_llava import save_llava

    models = {name: str(save_llava(root / "models" / name, change=size)) for name, size in CHANGES.items()}
    base = str(save_llava(root / "models" / "base"))
    joint = str(save_llava(root / "models" / "joint", change=0.07))
    sets = {name: str(write_questions(root / "sets" / name, n)) for name, n in (("in-a", 6), ("in-b", 5), ("out", 7))}
    val = write_questions(root / "sets" / "val", 4)
    (val / "test.jsonl").rename(val / "val.jsonl")
    about = {"name": "val", "version": 1, "splits": {"val": "val.jsonl"}}
    (val / "questions.yaml").write_text(json.dumps(about))
    suite = {
        "kind": "selection",
        "name": "pico-selection",
        "version": 1,
        "title": "Three changes of one pico model",
        "pool": {"base": base, "models": models},
        "joint": joint,
        "harmful": {"kind": "wild", "models": ["wild"]},
        "held_in": [sets["in-a"], sets["in-b"]],
        "held_out": [sets["out"]],
        "validation": [str(val)],
        "passes": 2,
        "perturbations": {
            "input+model": {"label": "Input and model", "image": True, "text": True, "model": True},
            "image": {"label": "Image only", "image": True},
        },
        "both_orders": True,
        "choose": "global_min",
        "subsets": 2,
        "random": {"sizes": [2], "count": 2},
        "entries": {
            "average": {"label": "Linear", "merge": "average", "paper": "Linear"},
            "task_arithmetic": {
                "label": "Task Arithmetic",
                "setting": "default",
                "merge": {"task_arithmetic": {"scale": 1.0}},
                "paper": "Task Arithmetic",
            },
            "ties-standard": {"label": "TIES", "setting": "standard", "merge": {"ties": {"density": 0.2}}},
        },
        "presets": {"fast": {"limit": 3, "perturbations": [], "entries": ["task_arithmetic"]}},
    }
    path = root / "pico-selection.yaml"
    path.write_text(yaml.safe_dump({**suite, **words}, sort_keys=False))
    return path
