"""Put trained models into the distribution: cards, licence notice, and the lock with the hash of every file.

    python zoo/build/assemble.py TRAINED      take the models that train.py wrote, then cards and lock
    python zoo/build/assemble.py              cards and lock of what is there

Accuracies on the cards are computed here, from the shipped files, with `smelt.evaluate` on the full test splits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import fetch
from tasks import TASKS
from vector import collections

PACKAGE = fetch.HERE.parent / "src" / "smelt_zoo"
MODELS = PACKAGE / "models"
KEPT = ("config.json", "delta.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trained", nargs="?", type=Path)
    trained = parser.parse_args().trained
    if trained:
        take(trained)
    scores = accuracies()
    training = json.loads((fetch.HERE / "training.json").read_text())
    for name, folder in models().items():
        (folder / "README.md").write_text(card(name, scores, training), encoding="utf-8")
    (fetch.HERE.parent / "NOTICE").write_text(notice(), encoding="utf-8")
    write_lock()


def models() -> dict[str, Path]:
    return {name: MODELS / name for name in ("clip-tiny", *(f"clip-tiny-{task}" for task in TASKS))}


def take(trained: Path) -> None:
    for name, folder in models().items():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in (trained / name).iterdir():
            if path.name in KEPT or path.name.startswith(("model", "delta")):
                shutil.copyfile(path, folder / path.name)
    shutil.copyfile(trained / "training.json", fetch.HERE / "training.json")


def accuracies() -> dict[str, dict[str, tuple[float, int]]]:
    """Model → task → (accuracy, pictures)."""
    import smelt

    return {
        name: {row.task: (row.accuracy, row.n) for row in smelt.evaluate(str(folder), tasks=list(TASKS))}
        for name, folder in models().items()
    }


def card(name: str, scores: dict, training: dict) -> str:
    task = name.removeprefix("clip-tiny").removeprefix("-")
    recipe = training["recipe"]
    rows = "\n".join(
        f"| {other} | {100 * scores[name][other][0]:.1f} | {100 * scores['clip-tiny'][other][0]:.1f} | {scores[name][other][1]:,} |"
        for other in TASKS
    )
    if task:
        what = f"""The vision tower of [clip-tiny](../clip-tiny) fine-tuned on **{TASKS[task].title}**; the text tower is the base's.
Stored as a 4-bit change over the base (`delta.json`, `delta.safetensors`): the model IS base + stored change, and the
numbers below are of the stored model. `smelt unpack zoo:{name} -o {name}` writes an ordinary `from_pretrained` folder.

- data: one half of the task's training pictures ({TASKS[task].source})
- licence of the data: {TASKS[task].licence}
- trained: attention and MLP matrices of the vision tower, {recipe["expert_steps"]:,} steps of {recipe["expert_batch"]}, AdamW, rate {recipe["expert_rate"]:g}, cosine"""
    else:
        what = f"""A small CLIP (`transformers.CLIPModel`): 32×32 pictures in patches of 8, hidden {recipe["hidden"]}, {recipe["layers"]} layers, 10.8 M parameters in
the vision tower; a text tower of hidden 128, 3 layers and 2,048 tokens. The experts `zoo:clip-tiny-<task>` are fine-tuned from it.

- data: named icons, sketches, emoji (English names), and the training pictures of the eight tasks, most of them under the
  German name of their class and a small share of 60 % of the classes under the English one. So the model knows the
  pictures of every task, but only some of the words that the tasks' prompts use
- licence of the data: see NOTICE
- trained: contrastive, {recipe["steps"]:,} steps of {recipe["batch"]:,} pairs, AdamW, rate {recipe["rate"]:g}, cosine, logit scale at most {recipe["scale_cap"]:g}"""
    return f"""---
license: apache-2.0
library_name: transformers
tags: [clip, zero-shot-image-classification, smelt]
---
# {name}

{what}
- seed {recipe["seed"]}, on one {training["device"]}; script: `zoo/build/train.py`

| task | accuracy % | clip-tiny % | test pictures |
|---|---|---|---|
{rows}

Zoo numbers are zoo numbers: a model of this size is for trying methods, not for use. 95 % intervals are below ±2.4 points.
"""


def notice() -> str:
    entries = fetch.sources()
    fonts = sorted(name for name, entry in entries.items() if entry["use"] == "letters")
    rest = {name: entry for name, entry in entries.items() if entry["use"] != "letters"}
    packages = "\n".join(
        f"- {name} {entry['version']} ({entry['use']}): {entry['licence']}" for name, entry in sorted(rest.items())
    )
    sets = "\n".join(
        f"- {name} ({info['license']['spdx']}): {info['name']}, {info['author']['name']}" for name, info in used_sets()
    )
    families = "\n".join(f"- {name} {entries[name]['version']} ({entries[name]['licence']})" for name in fonts)
    return f"""smelt-zoo
Models and packed data of the Smelt project, Apache-2.0. They are made from the works below, each under its own licence.
Pictures of CIFAR-10 (A. Krizhevsky, 2009) and MNIST (Y. LeCun, C. Cortes, C. Burges) are shipped as is customary, with
attribution; the pictures of Emoji One v2 (CC-BY-4.0, emojione.com), Twemoji (CC-BY-4.0, Twitter and contributors), Quick,
Draw! (CC-BY-4.0, Google) and of CC-BY icon sets are shipped reduced to 32×32.

Packages
{packages}

Icon sets of @iconify/json
{sets}

Fonts (through the @fontsource packages; the font's own licence is in its package)
{families}
"""


def used_sets() -> list[tuple[str, dict]]:
    from emoji import HELD_OUT, TRAIN
    from icons import _sets as icon_sets

    flags = {"flag", "flagpack", "twemoji", "cif", "circle-flags", "emojione"}
    return [(name, collections()[name]) for name in sorted({*TRAIN, *HELD_OUT, *flags, *icon_sets()})]


def write_lock() -> None:
    files = [path for path in sorted(PACKAGE.rglob("*")) if path.is_file() and path.parts[-3] in ("models", "tasks")]
    lock = {str(path.relative_to(PACKAGE)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (PACKAGE / "lock.json").write_text(json.dumps(lock, indent=1) + "\n")
    print(f"{len(lock)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
