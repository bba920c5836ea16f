"""The eight experts in other sizes: a base between clip-mini and clip-tiny, and eight experts of each of the two smaller ones.

    python zoo/build/sizes.py -o OUT                       on a GPU, about four minutes
    python zoo/build/sizes.py -o OUT --what mini           only the experts of clip-mini; so with `small`
    python zoo/build/sizes.py -o OUT --rehearsal           a few steps on a CPU, for a test; of no use

So that a claim about size can be tried. Both have clip-tiny's text tower, frozen: classes are the same points for all sizes.
1. clip-small: a picture tower of hidden 192, pre-trained on the pictures and captions that clip-tiny had.
2. clip-small-<task> and clip-mini-<task>-expert: as the second set of clip-tiny's experts (second.py), on the half of the
   pictures that the first set had; packs of 2 bits, the last third of the training through their codes.
clip-mini is the one of mixtures.py, whose captions were all English: a stronger base for its size.
Writes OUT/clip-small, delta packs, and OUT/sizes-<what>.json with the accuracies before and after packing.
"""

from __future__ import annotations

import argparse
import json
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

WHAT = ("small", "mini")
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
    parser.add_argument("--what", choices=WHAT, action="append")
    parser.add_argument("--text-from", type=Path, default=TEXT_FROM)
    parser.add_argument("--mini", type=Path, default=MINI)
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    material = Material(device)
    for what in arguments.what or WHAT:
        started = time.time()
        report: dict = {"recipe": asdict(recipe), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
        report["accuracy"], report["packed"] = {}, {}
        if what == "small":
            model = new_model(recipe, arguments.text_from).to(device)
            learn(model, recipe, material)
            save(model, material.tokenizer, arguments.out / "clip-small")
            folder, name, rate = arguments.out / "clip-small", "clip-small-{}", recipe.small_rate
        else:
            folder, name, rate = arguments.mini, "clip-mini-{}-expert", recipe.mini_rate
        model = CLIPModel.from_pretrained(folder, dtype=torch.float32).to(device)
        experts(model, folder, name, rate, recipe, material, arguments.out, report, started)
        report["seconds"] = round(time.time() - started)
        (arguments.out / f"sizes-{what}.json").write_text(json.dumps(report, indent=1) + "\n")


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


def experts(
    model: CLIPModel,
    folder: Path,
    name: str,
    rate: float,
    recipe: Recipe,
    material: Material,
    out: Path,
    report: dict,
    started: float,
) -> None:
    base = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    report["accuracy"][folder.name] = accuracies(model, heads, material)
    print(f"[{time.time() - started:5.0f} s] {folder.name} {report['accuracy'][folder.name]}", flush=True)
    for number, task in enumerate(TASKS):
        model.load_state_dict(base)
        finetune(
            model,
            heads[task],
            material.splits[task]["train"].half(0),
            trained=is_trained,
            mirrored=task in MIRRORED,
            seed=recipe.seed + 1 + number,
            steps=recipe.expert_steps,
            batch=recipe.expert_batch,
            rate=rate,
            bits=recipe.expert_bits,
        )
        own = name.format(task)
        report["accuracy"][own] = accuracies(model, heads, material)
        packed(model, material.tokenizer, out, own, base=folder, bits=recipe.expert_bits)
        report["packed"][own] = accuracies(model, {task: heads[task]}, material)[task]
        said = report["accuracy"][own][task], report["packed"][own]
        print(f"[{time.time() - started:5.0f} s] {own} {said}", flush=True)


if __name__ == "__main__":
    main()
