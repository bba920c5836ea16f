"""Train small ViTs on different mixtures of pictures: models of another size, each strong at something else.

    python zoo/build/mixtures.py -o OUT                    on two CPU cores, less than an hour; on a GPU, minutes
    python zoo/build/mixtures.py -o OUT --rehearsal        a few steps, for a test; of no use

For the hub (`smelt hub`), where models are chosen by what they are good at. All have clip-tiny's text tower, frozen, so the
features of all captions are computed once and a step costs no more than its picture tower.
1. clip-mini: a small picture tower, contrastive pre-training on everything, all captions in English.
2. clip-mini-<mixture>: goes on from it with pictures of a few kinds, and a tenth of the others.
Writes OUT/clip-mini, delta packs of the others, and OUT/mixtures.json with the accuracies before and after packing. A
clip-mini that is there already is not trained again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import CLIPConfig, CLIPModel

from contrastive import TrainingPool, pretrain
from distributions import folder_of
from material import Material
from packing import packed
from shelf import MIXTURES
from tasks import TASKS
from towers import accuracies, head, save
from views import INKED, MIRRORED

BASE = "clip-mini"
TEXT_FROM = folder_of("clip-tiny")


@dataclass(frozen=True)
class Recipe:
    hidden: int = 128
    layers: int = 4
    seed: int = 7
    rate: float = 1e-3
    batch: int = 512
    steps: tuple[int, ...] = (500, 1_000)
    """Of clip-mini, each number with a cosine of its own."""
    own_steps: int = 120
    own_rate: float = 7e-4
    rest: float = 0.1
    """The share of draws that are not of the mixture's kinds."""
    scale_cap: float = 20.0
    bits: int = 4


REHEARSAL = Recipe(hidden=32, layers=1, batch=16, steps=(1, 1), own_steps=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--text-from", type=Path, default=TEXT_FROM)
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    started = time.time()
    material = Material(device)
    model = new_model(recipe, arguments.text_from).to(device)
    said = text_features(model, material.tokens)
    heads = {task: head(model.eval(), material.class_tokens(task)) for task in TASKS}
    report: dict = {"recipe": asdict(recipe), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    report["mixtures"], report["accuracy"], report["packed"] = MIXTURES, {}, {}

    def learn(pool: TrainingPool, seed: int, steps: int, rate: float) -> None:
        words = {"seed": seed, "steps": steps, "batch": recipe.batch, "rate": rate, "scale_cap": recipe.scale_cap}
        pretrain(model, pool, material.tokens, said=said, trained=is_vision, **words)

    def say(name: str) -> None:
        print(f"[{time.time() - started:5.0f} s] {name} {report['accuracy'][name]}", flush=True)

    if not (arguments.out / BASE / "config.json").is_file():
        everything = mixture_pool(material, tuple(TASKS), recipe.rest)
        for number, steps in enumerate(recipe.steps):
            learn(everything, recipe.seed + number, steps, recipe.rate)
        save(model, material.tokenizer, arguments.out / BASE)
    model.load_state_dict(CLIPModel.from_pretrained(arguments.out / BASE, dtype=torch.float32).state_dict())
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report["accuracy"][BASE] = accuracies(model, heads, material)
    say(BASE)
    for number, (name, kinds) in enumerate(MIXTURES.items()):
        model.load_state_dict(base)
        learn(mixture_pool(material, kinds, recipe.rest), recipe.seed + 10 + number, recipe.own_steps, recipe.own_rate)
        name = f"{BASE}-{name}"
        report["accuracy"][name] = accuracies(model, heads, material)
        say(name)
        packed(model, material.tokenizer, arguments.out, name, base=arguments.out / BASE, bits=recipe.bits)
        report["packed"][name] = accuracies(model, heads, material)
    report["seconds"] = round(time.time() - started)
    (arguments.out / "mixtures.json").write_text(json.dumps(report, indent=1) + "\n")


def new_model(recipe: Recipe, text_from: Path) -> CLIPModel:
    """A new picture tower beside the text tower of another model."""
    other = CLIPModel.from_pretrained(text_from, dtype=torch.float32)
    torch.manual_seed(recipe.seed)
    config = CLIPConfig(
        text_config=other.config.text_config.to_dict(),
        vision_config={
            "hidden_size": recipe.hidden,
            "intermediate_size": 4 * recipe.hidden,
            "num_hidden_layers": recipe.layers,
            "num_attention_heads": recipe.hidden // 32,
            "image_size": 32,
            "patch_size": 8,
            "projection_dim": other.config.projection_dim,
            "hidden_act": "gelu",
        },
        projection_dim=other.config.projection_dim,
        logit_scale_init_value=math.log(14.0),
    )
    model = CLIPModel(config)
    model.text_model.load_state_dict(other.text_model.state_dict())
    model.text_projection.load_state_dict(other.text_projection.state_dict())
    return model


@torch.no_grad()
def text_features(model: CLIPModel, tokens: Tensor) -> Tensor:
    """Unit features of all captions [captions, wordings, width]."""
    parts = []
    for some in tokens.flatten(0, 1).split(2_048):
        parts.append(F.normalize(model.text_projection(model.text_model(some).pooler_output), dim=-1))
    return torch.cat(parts).view(*tokens.shape[:2], -1)


def mixture_pool(material: Material, kinds: tuple[str, ...], rest: float) -> TrainingPool:
    """All named and training pictures with English captions; those of `kinds` get all draws but `rest`.

    Within a mixture a kind's share grows with the square root of its pictures, so that forty thousand icons do not drown
    a few hundred flags.
    """
    parts: list[tuple[Tensor, Tensor, str, bool]] = []
    for task, numbers in material.table.named.items():
        pixels = material.pixels(f"{task}-named", len(numbers))
        parts.append((pixels, torch.tensor(numbers, device=material.device), task, False))
    for task in TASKS:
        train = material.splits[task]["train"]
        captions = torch.tensor(material.table.english[task], device=material.device)[train.labels]
        parts.append((train.pixels, captions, task, task in MIRRORED))
    inside = sum(math.sqrt(len(captions)) for _, captions, task, _ in parts if task in kinds)
    outside = sum(math.sqrt(len(captions)) for _, captions, task, _ in parts if task not in kinds)

    def draws(task: str, count: int) -> float:
        """Of one picture."""
        whole, share = (inside, 1 - rest if outside else 1.0) if task in kinds else (outside, rest)
        return share * math.sqrt(count) / whole / count

    def spread(values: list, dtype: torch.dtype) -> Tensor:
        columns = [torch.full((len(p[1]),), value, dtype=dtype) for p, value in zip(parts, values, strict=True)]
        return torch.cat(columns).to(material.device)

    return TrainingPool(
        torch.cat([part[0] for part in parts]),
        torch.cat([part[1] for part in parts]),
        spread([draws(task, len(captions)) for _, captions, task, _ in parts], torch.float64),
        spread([task in INKED for _, _, task, _ in parts], torch.bool),
        spread([mirrored for *_, mirrored in parts], torch.bool),
    )


def is_vision(name: str) -> bool:
    """The picture tower, its projection and the scale."""
    return name.startswith(("vision_model.", "visual_projection.", "logit_scale"))


if __name__ == "__main__":
    main()
