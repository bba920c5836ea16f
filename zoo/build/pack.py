"""Pack every task's pictures: all of them for training into zoo/.cache/pool, fixed shares into the distribution.

    python zoo/build/pack.py [TASK ...]

The distribution carries the whole `test` split, and enough of `val` and `train` for methods that need data. The pool
(zoo/.cache/pool) carries all training pictures and the pictures with names, which `train.py` reads. Tasks that nothing is
trained for have no `train` and are not in the pool.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import shutil
from types import ModuleType

import numpy as np
import yaml

import fetch
from distributions import part_folder
from pictures import Split, TaskPictures, write_mosaic
from tasks import TARGETS, TASKS, TaskText

SHIPPED = part_folder("tasks")
POOL = fetch.CACHE / "pool"
TRAIN, VAL = 2_000, 600
"""Pictures of the train and val splits that the distribution carries; `train` from the half that the experts saw."""
SAMPLES = fetch.HERE / "samples.json"
"""The hash of a small sample of each task, which a test draws again."""
SMALL = {"emoji": 100, "flags": 20, "letters": 20, "icons": 20, "printed-digits": 4, "small-letters": 4}
SMALL |= {"animals": 4, "food": 4, "vehicles": 4, "weather": 4}
"""Every so many emoji, countries, font families and concepts make a small sample; the other tasks are quick to build."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=[*TASKS, *TARGETS], metavar="TASK")
    samples = json.loads(SAMPLES.read_text()) if SAMPLES.exists() else {}
    for name in parser.parse_args().tasks:
        pictures = module(name).build()
        ship(name, pictures)
        if name in TASKS:
            pool(name, pictures)
        samples[name] = sample(name)
        SAMPLES.write_text(json.dumps(samples, indent=1) + "\n")
        sizes = {split: len(part) for split, part in splits(pictures).items()}
        print(f"{name}: {len(pictures.classes)} classes, {sizes}", flush=True)


def module(name: str) -> ModuleType:
    """The module that builds a task."""
    return importlib.import_module(name.replace("-", "_"))


def splits(pictures: TaskPictures) -> dict[str, Split]:
    """All splits that a task has."""
    parts = {"train": pictures.train, "val": pictures.val, "test": pictures.test}
    return {split: part for split, part in parts.items() if part is not None}


def ship(name: str, pictures: TaskPictures) -> None:
    """The task's folder in the distribution: mosaics, labels, task.yaml and the card."""
    folder = SHIPPED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shipped = {"val": pictures.val[:VAL], "test": pictures.test}
    if pictures.train is not None:
        shipped = {"train": pictures.train[::2][:TRAIN], **shipped}
    for split, chosen in shipped.items():
        write_mosaic(folder / f"{split}.webp", chosen.pixels, lossless=pictures.lossless)
    np.savez_compressed(folder / "labels.npz", **{s: chosen.labels.astype(np.uint16) for s, chosen in shipped.items()})
    text: TaskText = (TASKS | TARGETS)[name]
    task = {
        "name": name,
        "version": 1,
        "title": text.title,
        "classes": pictures.classes,
        "templates": text.templates,
        "size": 32,
        "data": {"mosaics": {split: f"{split}.webp" for split in shipped}, "labels": "labels.npz"},
    }
    (folder / "task.yaml").write_text(
        yaml.safe_dump(task, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8"
    )
    (folder / "README.md").write_text(card(text, pictures, {s: len(c) for s, c in shipped.items()}), encoding="utf-8")


def sample(name: str) -> str:
    """The SHA-256 of a small sample: its classes, and its pictures before any compression with their labels."""
    build = module(name).build
    pictures = build(SMALL[name]) if name in SMALL else build()
    digest = hashlib.sha256("\n".join(pictures.classes).encode())
    for part in splits(pictures).values():
        digest.update(np.ascontiguousarray(part.pixels[:1_000]).tobytes())
        digest.update(part.labels[:1_000].astype(np.uint16).tobytes())
    return digest.hexdigest()


def pool(name: str, pictures: TaskPictures) -> None:
    """What training reads. Pictures go through the same compression as the shipped ones."""
    POOL.mkdir(parents=True, exist_ok=True)
    kinds = {"train": pictures.train.pixels, "val": pictures.val.pixels, "test": pictures.test.pixels}
    about = {
        "classes": pictures.classes,
        "german": pictures.german,
        "lossless": pictures.lossless,
        "labels": {s: getattr(pictures, s).labels.tolist() for s in ("train", "val", "test")},
    }
    if pictures.named is not None:
        kinds["named"] = pictures.named.pixels
        about["names"] = pictures.named.names
    for kind, pixels in kinds.items():
        write_mosaic(POOL / f"{name}-{kind}.webp", pixels, lossless=pictures.lossless)
    (POOL / f"{name}.json").write_text(json.dumps(about, ensure_ascii=False))


_SPLITS = """`test` is for reported numbers only. `val` is for tuning (with labels) and for unlabelled adaptation. `train` is a share of
what the expert was trained on, for methods that need the training distribution."""
_NO_TRAINING = """`test` is for reported numbers only. `val` is for tuning (with labels) and for unlabelled adaptation. There is no `train`:
no model of the zoo was trained for this task, or on any of its pictures."""


def card(text: TaskText, pictures: TaskPictures, counts: dict[str, int]) -> str:
    rows = "\n".join(f"| {split} | {count:,} |" for split, count in counts.items())
    facts = "\n".join(
        f"- {key}: {', '.join(map(str, v)) if isinstance(v, list) else v}" for key, v in pictures.facts.items()
    )
    return f"""# {text.title}

{text.about}

- classes: {len(pictures.classes)}
- pictures: 32×32 RGB, {"16 greys, stored without loss" if pictures.lossless else "stored as lossy webp (quality 90)"}
- source: {text.source}
- licence: {text.licence}
{facts}

| split | pictures |
|---|---|
{rows}

{_SPLITS if "train" in counts else _NO_TRAINING}

## Versions
1: first.
"""


if __name__ == "__main__":
    main()
