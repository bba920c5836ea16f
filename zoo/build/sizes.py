"""The eight experts in other sizes: a base between clip-mini and clip-tiny, and eight experts of each of the two smaller ones.

    python zoo/build/sizes.py -o OUT                       on a GPU, a few minutes
    python zoo/build/sizes.py -o OUT --what mini           only the experts of clip-mini; so with `small`
    python zoo/build/sizes.py -o OUT --rehearsal           a few steps on a CPU, for a test; of no use

So that a claim about size can be tried. Both have clip-tiny's text tower, frozen: classes are the same points for all sizes.
1. clip-small: a picture tower of hidden 192, pre-trained on the pictures and captions that clip-tiny had.
2. clip-small-<task> and clip-mini-<task>-expert: as the second set of clip-tiny's experts (second.py), on the half of the
   pictures that the first set had; packs of 2 bits, the last third of the training through their codes. Several tasks are
   trained at once, a process for each pair: models this small leave most of a GPU idle.
clip-mini is the one of mixtures.py, whose captions were all English: a stronger base for its size.
Writes OUT/clip-small, delta packs, and OUT/sizes.json and OUT/mini-experts.json with the accuracies before and after packing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import CLIPModel

from contrastive import Mixture, pretrain, training_pool
from distributions import folder_of
from finetuning import finetune
from material import Material
from mixtures import is_vision, new_model, text_features
from packing import packed
from tasks import TASKS
from towers import accuracies, head, save
from train import is_trained
from views import MIRRORED

RECORDS = {"small": "sizes", "mini": "mini-experts"}
"""What is trained, and what its record is called."""
TOGETHER = 2
"""Tasks of one process."""
TEXT_FROM, MINI = folder_of("clip-tiny"), folder_of("clip-mini")


@dataclass(frozen=True)
class Recipe(Mixture):
    hidden: int = 192
    layers: int = 6
    steps: int = 5_000
    batch: int = 1_024
    rate: float = 1e-3
    scale_cap: float = 20.0
    expert_steps: int = 1_500
    expert_batch: int = 64
    small_rate: float = 2e-4
    mini_rate: float = 3e-4
    expert_bits: int = 2


REHEARSAL = Recipe(hidden=32, layers=1, steps=2, batch=16, expert_steps=3, expert_batch=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--what", choices=RECORDS, action="append")
    parser.add_argument("--text-from", type=Path, default=TEXT_FROM)
    parser.add_argument("--mini", type=Path, default=MINI)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument(
        "--task", choices=TASKS, action="append", help="experts of these tasks alone, from the base in OUT"
    )
    given = parser.parse_args()
    recipe = REHEARSAL if given.rehearsal else Recipe()
    torch.backends.cuda.matmul.allow_tf32 = True
    for what in given.what or RECORDS:
        if given.task:
            experts(what, given, recipe, Material(device()))
        else:
            train_all(what, given, recipe)


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_all(what: str, given: argparse.Namespace, recipe: Recipe) -> None:
    """The base, then the experts of all tasks at once; their parts become the record."""
    started = time.time()
    if what == "small":
        material = Material(device())
        model = new_model(recipe, given.text_from).to(material.device)
        learn(model, recipe, material)
        save(model, material.tokenizer, given.out / "clip-small")
        del model, material
    elif not (given.out / given.mini.name).exists():  # packs lie beside their base
        shutil.copytree(given.mini, given.out / given.mini.name)
    names = list(TASKS)
    command = [sys.executable, __file__, "-o", str(given.out), "--what", what, "--mini", str(given.mini)]
    command += ["--rehearsal"] if given.rehearsal else []
    groups = [names[i : i + TOGETHER] for i in range(0, len(names), TOGETHER)]
    plain = {**os.environ, "TORCHDYNAMO_DISABLE": "1"}  # compiling for so few steps takes longer than they do
    running = [
        subprocess.Popen([*command, *(word for task in group for word in ("--task", task))], env=plain)
        for group in groups
    ]
    if sum(process.wait() != 0 for process in running):
        raise SystemExit(f"experts of {what} failed")
    where = torch.cuda.get_device_name() if device() == "cuda" else "cpu"
    report: dict = {"recipe": asdict(recipe), "device": where, "accuracy": {}, "packed": {}}
    for task in names:
        part = json.loads((given.out / f"{what}-{task}.json").read_text())
        report["accuracy"] |= part["accuracy"]
        report["packed"] |= part["packed"]
    report["seconds"] = round(time.time() - started)
    (given.out / f"{RECORDS[what]}.json").write_text(json.dumps(report, indent=1) + "\n")


def learn(model: CLIPModel, recipe: Recipe, material: Material) -> None:
    pretrain(
        model,
        training_pool(recipe, material),
        material.tokens,
        seed=recipe.seed,
        steps=recipe.steps,
        batch=recipe.batch,
        rate=recipe.rate,
        scale_cap=recipe.scale_cap,
        trained=is_vision,
        said=text_features(model, material.tokens),
    )


def experts(what: str, given: argparse.Namespace, recipe: Recipe, material: Material) -> None:
    """Those of the tasks that were named, each with a part of the record."""
    started, mini = time.time(), what == "mini"
    folder, name = (given.mini, "clip-mini-{}-expert") if mini else (given.out / "clip-small", "clip-small-{}")
    model = CLIPModel.from_pretrained(folder, dtype=torch.float32).to(material.device)
    base = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    before = accuracies(model, heads, material)
    for task in given.task:
        model.load_state_dict(base)
        finetune(
            model,
            heads[task],
            material.splits[task]["train"].half(0),
            trained=is_trained,
            mirrored=task in MIRRORED,
            seed=recipe.seed + 1 + list(TASKS).index(task),
            steps=recipe.expert_steps,
            batch=recipe.expert_batch,
            rate=recipe.mini_rate if mini else recipe.small_rate,
            bits=recipe.expert_bits,
        )
        own = name.format(task)
        report: dict = {"accuracy": {folder.name: before, own: accuracies(model, heads, material)}, "packed": {}}
        packed(model, material.tokenizer, given.out, own, base=folder, bits=recipe.expert_bits)
        report["packed"][own] = accuracies(model, {task: heads[task]}, material)[task]
        (given.out / f"{what}-{task}.json").write_text(json.dumps(report, indent=1) + "\n")
        said = before[task], report["accuracy"][own][task], report["packed"][own]
        print(f"[{time.time() - started:5.0f} s] {own} {said}", flush=True)


if __name__ == "__main__":
    main()
