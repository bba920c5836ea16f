"""Train the base and its eight experts.

    python zoo/build/train.py -o OUT                     on a GPU, about five minutes
    python zoo/build/train.py -o OUT --rehearsal         the same steps on a CPU in a minute, for a test; of no use

Reads zoo/.cache/pool (pack.py) and the tokenizer. Writes OUT/clip-tiny and OUT/dense/clip-tiny-<task> as
`from_pretrained` folders in half precision, the experts as delta packs OUT/clip-tiny-<task>, and OUT/training.json with
the recipe, the seed and the accuracies on the test splits before and after packing. `assemble.py` takes it from there.

1. Contrastive pre-training (CLIP's loss; equal captions in a batch all count as right) of both towers.
2. The base is rounded to half precision: what the experts start from is what is shipped.
3. Each expert: only the attention and MLP matrices of the vision tower, cross entropy against the frozen text head, on one
   half of the task's training pictures (the other half is for the second set of experts, second.py).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

import captions
from contrastive import Mixture, pretrain, training_pool
from finetuning import finetune
from material import Material
from packing import packed
from tasks import TASKS
from towers import accuracies, head, save
from views import MIRRORED


@dataclass(frozen=True)
class Recipe(Mixture):
    """The numbers that were measured to give the published pattern (docs: zoo)."""

    hidden: int = 384
    layers: int = 6
    steps: int = 6_000
    batch: int = 1_024
    rate: float = 7e-4
    scale_cap: float = 20.0
    expert_steps: int = 1_000
    expert_batch: int = 64
    expert_rate: float = 1e-4


REHEARSAL = Recipe(hidden=32, layers=2, steps=3, batch=16, expert_steps=2, expert_batch=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.time()
    material = Material(device)
    print(f"[{time.time() - started:5.0f} s] read", flush=True)

    model = new_model(recipe, material.tokenizer).to(device)
    pretrain(
        model,
        training_pool(recipe, material),
        material.tokens,
        seed=recipe.seed,
        steps=recipe.steps,
        batch=recipe.batch,
        rate=recipe.rate,
        scale_cap=recipe.scale_cap,
    )
    model.half().float()  # what is shipped is what the experts start from
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    report = {"recipe": asdict(recipe), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    report["accuracy"], report["packed"] = {"base": accuracies(model, heads, material)}, {}
    print(f"[{time.time() - started:5.0f} s] base {report['accuracy']['base']}", flush=True)
    save(model, material.tokenizer, arguments.out / "clip-tiny")
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
            rate=recipe.expert_rate,
        )
        report["accuracy"][task] = accuracies(model, heads, material)
        print(f"[{time.time() - started:5.0f} s] {task} {report['accuracy'][task]}", flush=True)
        base_folder = arguments.out / "clip-tiny"
        packed(model, material.tokenizer, arguments.out, f"clip-tiny-{task}", base=base_folder, bits=4)
        report["packed"][task] = accuracies(model, heads, material)
    report["seconds"] = round(time.time() - started)
    (arguments.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")


def new_model(recipe: Recipe, tokenizer: CLIPTokenizer) -> CLIPModel:
    torch.manual_seed(recipe.seed)
    config = CLIPConfig(
        text_config=text_config(tokenizer),
        vision_config={
            "hidden_size": recipe.hidden,
            "intermediate_size": 4 * recipe.hidden,
            "num_hidden_layers": recipe.layers,
            "num_attention_heads": max(1, recipe.hidden // 96),
            "image_size": 32,
            "patch_size": 8,
            "projection_dim": 128,
            "hidden_act": "gelu",
        },
        projection_dim=128,
        logit_scale_init_value=math.log(14.0),
    )
    return CLIPModel(config)


def text_config(tokenizer: CLIPTokenizer) -> dict:
    """The small text tower that all families of the zoo have."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": captions.LENGTH,
        "projection_dim": 128,
        "hidden_act": "gelu",
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def is_trained(name: str) -> bool:
    """The attention and MLP matrices of the vision tower's blocks."""
    return name.startswith("vision_model.encoder.layers.") and name.endswith(
        (
            "q_proj.weight",
            "k_proj.weight",
            "v_proj.weight",
            "out_proj.weight",
            "fc1.weight",
            "fc2.weight",
        )
    )


if __name__ == "__main__":
    main()
