"""Train a second set of experts of clip-tiny, on the other half of the training pictures and from another seed.

    python zoo/build/second.py -o OUT                    on a GPU, about two minutes
    python zoo/build/second.py -o OUT --rehearsal        a few steps on a CPU, for a test; of no use

For the question whether what was learned about one set of models serves another (`smelt bench neulig`). Writes delta
packs of 2 bits, OUT/clip-tiny-<task>-b, and OUT/second.json with the accuracies before and after packing. With so few
bits rounding would cost points; so the last third of the training computes with the rounded weights (finetuning.py).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import CLIPModel

from distributions import folder_of
from finetuning import finetune
from material import Material
from packing import packed
from tasks import TASKS
from towers import accuracies, head
from train import is_trained
from views import MIRRORED

BASE = folder_of("clip-tiny")


@dataclass(frozen=True)
class Recipe:
    """As the first set, from another seed, and a half longer for the steps through the codes."""

    seed: int = 1_000
    half: int = 1
    bits: int = 2
    steps: int = 1_500
    batch: int = 64
    rate: float = 1e-4


REHEARSAL = Recipe(steps=3, batch=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--base", type=Path, default=BASE)
    parser.add_argument("--task", choices=TASKS, action="append", help="only these")
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.time()
    material = Material(device)
    model = CLIPModel.from_pretrained(arguments.base, dtype=torch.float32).to(device)
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    report: dict = {"recipe": asdict(recipe), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    report["accuracy"], report["packed"] = {}, {}
    for number, task in enumerate(TASKS):
        if arguments.task and task not in arguments.task:
            continue
        model.load_state_dict(base)
        finetune(
            model,
            heads[task],
            material.splits[task]["train"].half(recipe.half),
            trained=is_trained,
            mirrored=task in MIRRORED,
            seed=recipe.seed + number,
            steps=recipe.steps,
            batch=recipe.batch,
            rate=recipe.rate,
            bits=recipe.bits,
        )
        name = f"clip-tiny-{task}-b"
        before = accuracies(model, heads, material)
        packed(model, material.tokenizer, arguments.out, name, base=arguments.base, bits=recipe.bits)
        after = accuracies(model, {task: heads[task]}, material)[task]
        report["accuracy"][name], report["packed"][name] = before, after
        print(f"[{time.time() - started:5.0f} s] {name} {before[task]} {after}", flush=True)
    report["seconds"] = round(time.time() - started)
    (arguments.out / "second.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
