"""Formats of suites and tasks: of pictures, of language, of questions about pictures."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fuzz.damage_files import gzipped_lines, lines, npz, png, yaml_file
from fuzz.format import Format

__all__ = ["FORMATS"]

SUITE = {
    "name": "pico",
    "version": 1,
    "title": "Two experts",
    "pool": {"base": "base", "models": {"cars": "cars", "birds": "birds"}},
    "tasks": ["plain", "turned"],
    "include": ["model.*"],
    "scales": [0.25, 0.5],
    "curve_limit": 12,
    "points": 3,
    "entries": {
        "average": {"label": "Simple averaging", "merge": "average"},
        "ties": {"label": "TIES", "merge": [{"ties": {"density": 0.2}}], "data": None},
        "masks": {"label": "EMR", "merge": "emr", "for_task": "emr.task"},
        "all": {"label": "Ensemble", "ensemble": "mean", "tune": False},
    },
    "paths": [{"start": "cars", "end": "birds", "tasks": ["plain"]}],
    "parts": {"one": ["cars"]},
    "corruptions": {"kinds": ["motion_blur"], "severities": [1, 3]},
}
LANGUAGE = {
    "kind": "language",
    "name": "pico-language",
    "version": 1,
    "title": "Two specialists",
    "pool": {"base": "base", "models": {"up": "up", "down": "down"}},
    "multitask": "both",
    "domains": {"up": {"tests": ["up"], "validation": "up-val"}, "down": {"tests": ["down"], "validation": "down-val"}},
    "general": ["still"],
    "include": ["model.layers.*"],
    "entries": {
        "average": {"label": "Model Soup", "merge": "average"},
        "ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 0.3}}, "tune": {"task_arithmetic.scale": [0.1]}},
    },
    "presets": {"fast": {"limit": 1, "experts": "own"}},
}
SELECTION = {
    "kind": "selection",
    "name": "pico-selection",
    "version": 1,
    "title": "Three changes",
    "pool": {"base": "base", "models": {"mild": "mild", "bold": "bold", "wild": "wild"}},
    "joint": "joint",
    "held_in": ["in-a"],
    "held_out": ["out"],
    "validation": ["val"],
    "passes": 2,
    "perturbations": {"image": {"label": "Image only", "image": True}},
    "choose": "global_min",
    "subsets": 2,
    "random": {"sizes": [2], "count": 2},
    "entries": {"average": {"label": "Linear", "merge": "average", "paper": "Linear"}},
    "presets": {"fast": {"limit": 3, "perturbations": [], "entries": ["average"]}},
}
HUB = {
    "kind": "hub",
    "name": "pico-hub",
    "version": 1,
    "title": "A hub",
    "models": {"one": "one", "two": "two"},
    "graph": "graph",
    "tasks": {name: {"domain": "photo", "task": "tell colours apart"} for name in ("plain", "turned")},
    "methods": {"mll": {"label": "MLL"}, "any": {"label": "Any", "by": "random"}},
    "embedder": "hashed",
    "nodes": 1,
    "k": [1, 2],
    "sweeps": {"method": "mll", "alpha": [0.5, 0.7], "k": [1, 2, 3]},
    "timing": {"task": "plain", "pictures": 6, "repeats": 1},
}
SUITES = {"pico": SUITE, "language": LANGUAGE, "selection": SELECTION, "hub": HUB}


def _make_suites(place: Path) -> None:
    for name, content in SUITES.items():
        (place / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _find_suite(place: Path, file: str) -> Any:
    from smelt.suites.clip.suite import ClipSuite
    from smelt.suites.find import find_suite

    suite = find_suite(place / file)
    if isinstance(suite, ClipSuite):
        for entry in suite.entries.values():
            if entry.merge is not None:
                suite.recipe(entry, task="plain")
    return suite


# ---- tasks


def _make_task(place: Path) -> None:
    from pico_clip import write_task

    write_task(place / "colours", dict.fromkeys(("red", "green", "blue"), 2))


def _read_task(place: Path, file: str) -> Any:
    from smelt.tasks.pictures.splits import open_split
    from smelt.tasks.registry import find_task

    task = find_task(place / "colours")
    split = open_split(task, "test")
    return task, split.labels, np.stack(list(split.read(range(min(6, len(split.labels))))))


def _task_is_right(place: Path, found: Any) -> str | None:
    """Labels and pictures are those of numpy and Pillow, where the words are as they were."""
    from PIL import Image

    task, labels, pictures = found
    if task.data.labels != "labels.npz" or task.data.mosaics["test"] != "test.png":
        return None
    try:
        with np.load(place / "colours/labels.npz") as arrays:
            if not np.array_equal(arrays["test"], labels):
                return "the labels are not those of the file"
    except ValueError:  # numpy minds bytes in front of a zip
        return None
    picture = io.BytesIO((place / "colours/test.png").read_bytes())  # of a file Pillow would ask for gigabytes
    whole = np.asarray(Image.open(picture).convert("RGB"))
    side = pictures.shape[1]
    return None if np.array_equal(whole[:side, :side], pictures[0]) else "the first picture is not that of the mosaic"


def _make_language_task(place: Path) -> None:
    from pico_language import write_language_task

    write_language_task(place / "up", [("a", "b"), ("c", "d"), ("e", "f")], splits=("train", "test"))


def _read_language_task(place: Path, file: str) -> Any:
    from smelt.tasks.registry import find_task

    task: Any = find_task(place / "up")
    about = [task.version, task.title, task.domain, task.chat, task.metric, task.source, task.licence, task.splits]
    return about, {split: (task.count(split), task.records(split)) for split in task.splits}


def _make_questions(place: Path) -> None:
    from pico_selection import write_questions

    folder = write_questions(place / "noise", 3)
    packed = gzip.compress((folder / "test.jsonl").read_bytes(), mtime=0)
    (folder / "more.jsonl.gz").write_bytes(packed)
    content = {
        "name": "noise",
        "version": 1,
        "splits": {"test": "test.jsonl", "val": "more.jsonl.gz"},
        "extra": ["none"],
    }
    (folder / "questions.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _read_questions(place: Path, file: str) -> Any:
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.option_scores import question_subset
    from smelt.tasks.registry import find_task

    task: Any = find_task(place / "noise")
    data = DataCache()
    found = [question_subset(task, split, None, data) for split in task.splits]
    return [(one.texts, [one.pictures.read(question.picture) for question in one.questions]) for one in found]


FORMATS = [
    Format("suite", _make_suites, {f"{name}.yaml": yaml_file for name in SUITES}, _find_suite, share=2),
    Format(
        "task",
        _make_task,
        {"colours/task.yaml": yaml_file, "colours/labels.npz": npz, "colours/test.png": png},
        _read_task,
        _task_is_right,
        share=2,
    ),
    Format(
        "language_task",
        _make_language_task,
        {"up/harness.yaml": yaml_file, "up/test.jsonl.gz": gzipped_lines},
        _read_language_task,
    ),
    Format(
        "questions",
        _make_questions,
        {
            "noise/questions.yaml": yaml_file,
            "noise/test.jsonl": lines,
            "noise/more.jsonl.gz": gzipped_lines,
            "noise/0.png": png,
        },
        _read_questions,
    ),
]
