"""Put trained models into the distribution: cards, licence notice, and the lock with the hash of every file.

    python zoo/build/assemble.py TRAINED      take the models that train.py wrote, then cards and lock
    python zoo/build/assemble.py              cards and lock of what is there

Accuracies on the cards are those of the committed run of the suite, results/clip8 (`smelt bench clip8`).
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
ROWS = fetch.HERE.parents[1] / "results" / "clip8" / "rows.jsonl"
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
    found: dict[str, dict[str, tuple[float, int]]] = {name: {} for name in models()}
    for row in map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
        name = row.get("model", "").removeprefix("zoo:")
        if name in found and row["variant"] == "reference":
            found[name][row["task"]] = row["accuracy"], row["n"]
    return found


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

Zoo numbers are zoo numbers: a model of this size is for trying methods, not for use. 95 % intervals are below ±2.5 points
if pictures are independent; on flags, five views of each of 388 drawings, about twice that.
"""


def notice() -> str:
    entries = fetch.sources()
    fonts = sorted(name for name, entry in entries.items() if entry["use"] == "letters")
    rest = {name: entry for name, entry in entries.items() if entry["use"] != "letters"}
    packages = "\n".join(
        f"- {name} {entry['version']} ({entry['use']}): {entry['licence']}" for name, entry in sorted(rest.items())
    )
    sets = "\n".join(f"- {name}: {set_notice(info)}" for name, info in used_sets())
    families = "\n".join(f"- {name} {entries[name]['version']} ({entries[name]['licence']})" for name in fonts)
    return f"""smelt-zoo

The code, the model weights and the packing are Apache-2.0 (LICENSE). The pictures in src/smelt_zoo/tasks stay under the
licences of the works that they come from, reduced to 32×32 pixels, in part recoloured, turned and compressed:
- photos: CIFAR-10, no formal licence; A. Krizhevsky, Learning multiple layers of features from tiny images, 2009
- digits: MNIST, Y. LeCun, C. Cortes, C. Burges; usually given as CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/
- clothing: Fashion-MNIST, MIT, Copyright 2017 Zalando SE, https://tech.zalando.com
- sketches: The Quick, Draw! Dataset, Google, CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
- emoji, flags, icons: the icon sets below, each under its own licence
- letters: the fonts below, each under its own licence (nearly all SIL OFL 1.1)
The models were trained on these pictures and on others of the same sources.

Packages
{packages}

Icon sets of @iconify/json, with author and licence; the licence's text is at its address
{sets}

Fonts (through the @fontsource packages; the font's own licence is in its package)
{families}
"""


def set_notice(info: dict) -> str:
    """Name, author and licence of an icon set, with the addresses that its collection gives."""
    author, licence = info["author"], info["license"]
    who = f"{author['name']} ({author['url']})" if author.get("url") else author["name"]
    where = f", {licence['url']}" if licence.get("url") else ""
    return f"{info['name']}, {who}, {licence['spdx']}{where}"


def used_sets() -> list[tuple[str, dict]]:
    from emoji import HELD_OUT, TRAIN
    from flags import TEST, VAL
    from icons import _sets as icon_sets

    flags = {"flag", "flagpack", "twemoji", *VAL, *TEST}
    return [(name, collections()[name]) for name in sorted({*TRAIN, *HELD_OUT, *flags, *icon_sets()})]


def write_lock() -> None:
    files = [path for path in sorted(PACKAGE.rglob("*")) if path.is_file() and path.parts[-3] in ("models", "tasks")]
    lock = {str(path.relative_to(PACKAGE)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (PACKAGE / "lock.json").write_text(json.dumps(lock, indent=1) + "\n")
    print(f"{len(lock)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
