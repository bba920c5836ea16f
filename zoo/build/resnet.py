"""Train the convolutional family: its base, eight experts of it, and six experts of other origins.

    python zoo/build/resnet.py -o OUT                      on a GPU, about ten minutes
    python zoo/build/resnet.py -o OUT --what experts       only these, from the base in OUT; so with `others`
    python zoo/build/resnet.py -o OUT --rehearsal          a few steps on a CPU, for a test; of no use

`VisionTextDualEncoderModel`: a ResNet picture tower with BatchNorm, and a text tower like clip-tiny's.
1. clip-tiny-rn: contrastive pre-training of both towers, as in train.py.
2. clip-tiny-rn-<task>: its picture tower fine-tuned, all of it, BatchNorm's statistics included.
3. clip-tiny-rn-<task>-own: a picture tower that never was clip-tiny-rn's. Each begins with random numbers of its
   own, is pre-trained in short against the frozen text tower and projection, and then fine-tuned. The head is the same,
   the way to it is another one: such models cannot be averaged. Six tasks only; shelf.py says why.
Writes OUT/clip-tiny-rn, delta packs of the experts, and OUT/resnet-<what>.json with the accuracies before and after
packing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    CLIPTextConfig,
    CLIPTokenizer,
    ResNetConfig,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)

from contrastive import Mixture, pretrain, training_pool
from finetuning import finetune
from material import Material
from packing import packed
from shelf import OTHERS
from tasks import TASKS
from towers import accuracies, head, save
from train import text_config
from views import MIRRORED

BASE = "clip-tiny-rn"
WHAT = ("base", "experts", "others")


@dataclass(frozen=True)
class Recipe(Mixture):
    """Widths for 32×32 pictures: 8×8 after the stem, then 4×4 and 2×2."""

    seed: int = 0
    stem: int = 64
    channels: tuple[int, ...] = (64, 128, 224)
    depths: tuple[int, ...] = (2, 2, 2)
    steps: int = 5_000
    batch: int = 1_024
    rate: float = 1e-3
    scale_cap: float = 20.0
    expert_steps: int = 1_000
    expert_batch: int = 64
    expert_rate: float = 3e-4
    expert_bits: int = 2
    own_steps: int = 1_200
    own_batch: int = 512
    own_bits: int = 4


REHEARSAL = Recipe(
    stem=8,
    channels=(8, 16),
    depths=(1, 1),
    steps=2,
    batch=16,
    expert_steps=3,
    expert_batch=4,
    own_steps=2,
    own_batch=8,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--what", choices=WHAT, action="append")
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    training = Training(recipe, Material(device), arguments.out)
    for what in arguments.what or WHAT:
        training.do(what)


class Training:
    """One model that is trained again and again; its base's numbers are kept."""

    def __init__(self, recipe: Recipe, material: Material, out: Path):
        self.recipe, self.material, self.out, self.started = recipe, material, out, time.time()
        self.pool = training_pool(recipe, material)
        self.model = new_model(recipe, material.tokenizer, recipe.seed).to(material.device)
        self.state: dict[str, Tensor] = {}
        """The base's numbers, once it was trained or read."""
        self.where = torch.cuda.get_device_name() if material.device == "cuda" else "cpu"

    def do(self, what: str) -> None:
        """One of the three steps, and what came out."""
        self.report: dict = {"recipe": asdict(self.recipe), "device": self.where, "accuracy": {}, "packed": {}}
        if what != "base" and not self.state:
            self.read_base()
        {"base": self.base, "experts": self.experts, "others": self.others}[what]()
        self.report["seconds"] = round(time.time() - self.started)
        (self.out / f"resnet-{what}.json").write_text(json.dumps(self.report, indent=1) + "\n")

    def read_base(self) -> None:
        """The base as it is shipped, in half precision."""
        stored = VisionTextDualEncoderModel.from_pretrained(self.out / BASE, dtype=torch.float32)
        self.state = {name: tensor.to(self.material.device) for name, tensor in stored.state_dict().items()}
        self.model.load_state_dict(self.state)
        self.heads = {task: head(self.model.eval(), self.material.class_tokens(task)) for task in TASKS}

    def base(self) -> None:
        recipe = self.recipe
        self._pretrain(recipe.seed, recipe.steps, recipe.batch, lambda name: True)
        save(self.model, self.material.tokenizer, self.out / BASE)
        self.read_base()
        self.report["accuracy"][BASE] = accuracies(self.model, self.heads, self.material)
        self._say(f"base {self.report['accuracy'][BASE]}")

    def experts(self) -> None:
        for number, task in enumerate(TASKS):
            self.model.load_state_dict(self.state)
            self._finetune(task, self.recipe.seed + 1 + number, self.recipe.expert_bits)
            self._keep(f"{BASE}-{task}", task, self.recipe.expert_bits)

    def others(self) -> None:
        recipe = self.recipe
        for number, task in enumerate(OTHERS):
            seed = recipe.seed + 101 + number
            fresh = new_model(recipe, self.material.tokenizer, seed).state_dict()
            own = {name: tensor.to(self.material.device) for name, tensor in fresh.items() if is_vision(name)}
            self.model.load_state_dict({**self.state, **own})
            self._pretrain(seed, recipe.own_steps, recipe.own_batch, is_vision)
            self._finetune(task, seed, recipe.own_bits)
            self._keep(f"{BASE}-{task}-own", task, recipe.own_bits)

    def _pretrain(self, seed: int, steps: int, batch: int, trained) -> None:
        cap, rate = self.recipe.scale_cap, self.recipe.rate
        words = {"seed": seed, "steps": steps, "batch": batch, "rate": rate, "scale_cap": cap, "trained": trained}
        pretrain(self.model, self.pool, self.material.tokens, **words)

    def _finetune(self, task: str, seed: int, bits: int) -> None:
        finetune(
            self.model,
            self.heads[task],
            self.material.splits[task]["train"].half(0),
            trained=is_vision,
            mirrored=task in MIRRORED,
            seed=seed,
            steps=self.recipe.expert_steps,
            batch=self.recipe.expert_batch,
            rate=self.recipe.expert_rate,
            bits=bits,
            base=self.state,
        )

    def _keep(self, name: str, task: str, bits: int) -> None:
        before = accuracies(self.model, self.heads, self.material)
        packed(self.model, self.material.tokenizer, self.out, name, base=self.out / BASE, bits=bits)
        after = accuracies(self.model, {task: self.heads[task]}, self.material)[task]
        self.report["accuracy"][name], self.report["packed"][name] = before, after
        self._say(f"{name} {before[task]} {after}")

    def _say(self, text: str) -> None:
        print(f"[{time.time() - self.started:5.0f} s] {text}", flush=True)


def new_model(recipe: Recipe, tokenizer: CLIPTokenizer, seed: int) -> VisionTextDualEncoderModel:
    torch.manual_seed(seed)
    vision = ResNetConfig(
        embedding_size=recipe.stem,
        hidden_sizes=list(recipe.channels),
        depths=list(recipe.depths),
        layer_type="basic",
        hidden_size=recipe.channels[-1],  # what a dual encoder asks its tower for
        image_size=32,
    )
    text = CLIPTextConfig(**text_config(tokenizer))
    config = VisionTextDualEncoderConfig.from_vision_text_configs(
        vision, text, projection_dim=128, logit_scale_init_value=math.log(14.0)
    )
    return VisionTextDualEncoderModel(config)


def is_vision(name: str) -> bool:
    return name.startswith("vision_model.")


if __name__ == "__main__":
    main()
