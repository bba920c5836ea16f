"""Train the base and its eight experts.

    python zoo/build/train.py -o OUT                     on a GPU, about five minutes
    python zoo/build/train.py -o OUT --rehearsal         the same steps on a CPU in a minute, for a test; of no use

Reads zoo/.cache/pool (pack.py) and the tokenizer. Writes OUT/clip-tiny and OUT/dense/clip-tiny-<task> as
`from_pretrained` folders in half precision, the experts as delta packs OUT/clip-tiny-<task>, and OUT/training.json with
the recipe, the seed and the accuracies on the test splits before packing. `assemble.py` takes it from there.

1. Contrastive pre-training (CLIP's loss; equal captions in a batch all count as right) of both towers.
2. The base is rounded to half precision: what the experts start from is what is shipped.
3. Each expert: only the attention and MLP matrices of the vision tower, cross entropy against the frozen text head, on one
   half of the task's training pictures (the other half is for a second set of experts).
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
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

import captions
from pictures import SIZE
from smelt.engine.packs import pack
from smelt.evaluate.mosaic import read_mosaic
from tasks import TASKS
from tokenizer import FOLDER as TOKENIZER

MEAN, DEVIATION = 0.5, 0.25
MIRRORED = ("photos", "clothing")
"""Tasks whose pictures mean the same in a mirror."""
INKED = ("icons", "sketches")
"""Black-on-white drawings, which pre-training also sees in other colours."""


@dataclass(frozen=True)
class Recipe:
    """The numbers that were measured to give the published pattern (docs: zoo)."""

    seed: int = 0
    hidden: int = 384
    layers: int = 6
    steps: int = 6_000
    batch: int = 1_024
    rate: float = 7e-4
    scale_cap: float = 20.0
    english: tuple[tuple[str, int], ...] = (
        ("photos", 500),
        ("digits", 100),
        ("clothing", 100),
        ("sketches", 500),
        ("emoji", 680),
        ("flags", 564),
        ("letters", 130),
        ("icons", 800),
    )
    """Pictures of each task with an English caption."""
    english_classes: float = 0.6
    english_weight: float = 2.0
    german_share: float = 0.9
    expert_steps: int = 1_000
    expert_batch: int = 64
    expert_rate: float = 1e-4


REHEARSAL = Recipe(hidden=32, layers=2, steps=3, batch=16, expert_steps=2, expert_batch=4)


@dataclass
class Split:
    pixels: Tensor
    labels: Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--rehearsal", action="store_true")
    arguments = parser.parse_args()
    recipe = REHEARSAL if arguments.rehearsal else Recipe()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.time()

    pool = captions.read_pool()
    table = captions.Table(pool)
    tokenizer = CLIPTokenizer.from_pretrained(TOKENIZER)
    flat = [text for wordings in table.texts for text in wordings]
    coded = tokenizer(flat, padding="max_length", truncation=True, max_length=captions.LENGTH, return_tensors="pt")
    tokens = coded["input_ids"].view(len(table.texts), 3, captions.LENGTH).to(device)
    splits = {
        task: {s: read_split(task, s, about, device) for s in ("train", "val", "test")} for task, about in pool.items()
    }
    print(f"[{time.time() - started:5.0f} s] read", flush=True)

    model = new_model(recipe, tokenizer).to(device)
    pretrain(model, recipe, training_pool(recipe, pool, table, splits, device), tokens)
    model.half().float()  # what is shipped is what the experts start from
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    heads = {task: head(model, tokens[torch.tensor(table.english[task], device=device)]) for task in TASKS}
    report = {"recipe": asdict(recipe), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    report["accuracy"] = {"base": accuracies(model, heads, splits)}
    print(f"[{time.time() - started:5.0f} s] base {report['accuracy']['base']}", flush=True)
    save(model, tokenizer, arguments.out / "clip-tiny")
    for number, task in enumerate(TASKS):
        model.load_state_dict(base)
        train = splits[task]["train"]
        half = Split(train.pixels[::2], train.labels[::2])
        finetune(model, recipe, heads[task], half, mirrored=task in MIRRORED, seed=recipe.seed + 1 + number)
        report["accuracy"][task] = accuracies(model, heads, splits)
        print(f"[{time.time() - started:5.0f} s] {task} {report['accuracy'][task]}", flush=True)
        name = f"clip-tiny-{task}"
        save(model, tokenizer, arguments.out / "dense" / name)
        pack(
            arguments.out / "dense" / name,
            base=arguments.out / "clip-tiny",
            bits=4,
            out=arguments.out / name,
            force=True,
        )
    report["seconds"] = round(time.time() - started)
    (arguments.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")


def read_split(task: str, split: str, about: dict, device: str) -> Split:
    labels = torch.tensor(about["labels"][split])
    return Split(read_pixels(f"{task}-{split}", len(labels), device), labels.to(device))


def read_pixels(name: str, count: int, device: str) -> Tensor:
    """uint8 [n, 3, 32, 32]."""
    pixels = torch.from_numpy(read_mosaic(captions.POOL / f"{name}.webp", count, SIZE))
    return pixels.to(device).permute(0, 3, 1, 2).contiguous()


def new_model(recipe: Recipe, tokenizer: CLIPTokenizer) -> CLIPModel:
    torch.manual_seed(recipe.seed)
    marks = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = CLIPConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": captions.LENGTH,
            "projection_dim": 128,
            "hidden_act": "gelu",
            **marks,
        },
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


@dataclass
class TrainingPool:
    """Every picture with its caption's number, its share of the draws, and how it may be changed."""

    pixels: Tensor
    captions: Tensor
    weights: Tensor
    inked: Tensor
    mirrored: Tensor


def training_pool(recipe: Recipe, pool: dict, table: captions.Table, splits: dict, device: str) -> TrainingPool:
    parts: list[tuple[Tensor, Tensor, float, bool, bool]] = []
    for task, numbers in table.named.items():
        pixels = read_pixels(f"{task}-named", len(numbers), device)
        parts.append((pixels, torch.tensor(numbers, device=device), 1.0, task in INKED, False))
    dice = torch.Generator().manual_seed(recipe.seed + 3)
    for task, count in recipe.english:
        train, classes = splits[task]["train"], len(pool[task]["classes"])
        order = torch.randperm(len(train.labels), generator=dice).to(device)
        known = torch.zeros(classes, dtype=torch.bool)
        known[torch.randperm(classes, generator=dice)[: round(recipe.english_classes * classes)]] = True
        labels = train.labels[order]
        rank = F.one_hot(labels, classes).cumsum(0).gather(1, labels[:, None])[:, 0]
        english = order[(rank <= max(1, round(count / classes))) & known.to(device)[labels]]
        german = order[-int(recipe.german_share * len(order)) :]
        for chosen, numbers, weight in (
            (english, table.english[task], recipe.english_weight),
            (german, table.german[task], 1.0),
        ):
            caption = torch.tensor(numbers, device=device)[train.labels[chosen]]
            parts.append((train.pixels[chosen], caption, weight, task in INKED, task in MIRRORED))
    count = [len(part[1]) for part in parts]
    print(f"pool: {sum(count)} pictures, {len(table.texts)} captions", flush=True)

    def spread(column: int, dtype: torch.dtype) -> Tensor:
        return torch.cat([torch.full((n,), p[column], dtype=dtype) for n, p in zip(count, parts, strict=True)]).to(
            device
        )

    return TrainingPool(
        torch.cat([p[0] for p in parts]),
        torch.cat([p[1] for p in parts]),
        spread(2, torch.float64),
        spread(3, torch.bool),
        spread(4, torch.bool),
    )


def pretrain(model: CLIPModel, recipe: Recipe, pool: TrainingPool, tokens: Tensor) -> None:
    device = tokens.device
    torch.manual_seed(recipe.seed)
    see, read = towers(model)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98))
    draws = torch.cumsum(pool.weights, 0) / pool.weights.sum()
    for step in range(recipe.steps):
        set_rate(optimizer, recipe.rate, step, recipe.steps, warm=300)
        chosen = torch.searchsorted(draws, torch.rand(recipe.batch, device=device, dtype=torch.float64)).clamp_(
            max=len(draws) - 1
        )
        pictures = changed(pool.pixels[chosen], pool.mirrored[chosen], pool.inked[chosen])
        caption = pool.captions[chosen]
        wording = torch.randint(0, 3, (recipe.batch,), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            seen, said = see(pictures), read(tokens[caption, wording])
        logits = model.logit_scale.exp() * seen.float() @ said.float().T
        right = (caption[:, None] == caption[None]).float()
        right = right / right.sum(1, keepdim=True)
        loss = 0.5 * (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=math.log(recipe.scale_cap))
        if step % 1_000 == 0 or step == recipe.steps - 1:
            print(f"  step {step}: loss {loss.item():.3f}, scale {model.logit_scale.exp().item():.1f}", flush=True)


def finetune(model: CLIPModel, recipe: Recipe, head: Tensor, train: Split, *, mirrored: bool, seed: int) -> None:
    device = train.labels.device
    torch.manual_seed(seed)
    trained = [p for name, p in model.named_parameters() if is_trained(name)]
    optimizer = torch.optim.AdamW(trained, lr=recipe.expert_rate, betas=(0.9, 0.98), weight_decay=0.05)
    for p in model.parameters():
        p.requires_grad_(False)
    for p in trained:
        p.requires_grad_(True)
    see, _ = towers(model)
    scale = model.logit_scale.exp().detach()
    mirror = torch.full((recipe.expert_batch,), mirrored, device=device)
    for step in range(recipe.expert_steps):
        set_rate(optimizer, recipe.expert_rate, step, recipe.expert_steps, warm=100)
        chosen = torch.randint(0, len(train.labels), (recipe.expert_batch,), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            seen = see(changed(train.pixels[chosen], mirror, None))
        loss = F.cross_entropy(scale * seen.float() @ head.T, train.labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


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


_compiled: dict[int, tuple] = {}


def towers(model: CLIPModel):
    """Unit features of pictures and of texts; compiled once for a GPU."""
    if id(model) not in _compiled:

        def see(pictures: Tensor) -> Tensor:
            return F.normalize(model.visual_projection(model.vision_model(pictures).pooler_output), dim=-1)

        def read(tokens: Tensor) -> Tensor:
            return F.normalize(model.text_projection(model.text_model(tokens).pooler_output), dim=-1)

        compiled = torch.cuda.is_available()
        _compiled[id(model)] = (torch.compile(see), torch.compile(read)) if compiled else (see, read)
    return _compiled[id(model)]


def set_rate(optimizer: torch.optim.Optimizer, rate: float, step: int, steps: int, *, warm: int) -> None:
    """A short rise, then half a cosine down to a hundredth."""
    rise = min(1.0, (step + 1) / min(warm, steps // 5 + 1))
    for group in optimizer.param_groups:
        group["lr"] = rate * rise * (0.99 * 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.01)


def normalised(pixels: Tensor) -> Tensor:
    return (pixels.float() / 255 - MEAN) / DEVIATION


def changed(pixels: Tensor, mirrored: Tensor, inked: Tensor | None) -> Tensor:
    """A batch seen a little differently: turned, moved, scaled, mirrored, recoloured, in other light."""
    count, device = len(pixels), pixels.device

    def between(low: float, high: float) -> Tensor:
        return torch.rand(count, device=device) * (high - low) + low

    angle = between(-12, 12) * math.pi / 180
    size = 1 + between(-0.18, 0.18)
    wide, high = size * (1 + between(-0.08, 0.08)), size * (1 + between(-0.08, 0.08))
    flip = torch.where(mirrored & (torch.rand(count, device=device) < 0.5), -1.0, 1.0)
    rows = torch.stack([torch.cos(angle) * wide * flip, -torch.sin(angle) * wide, between(-0.12, 0.12)], 1)
    columns = torch.stack([torch.sin(angle) * high * flip, torch.cos(angle) * high, between(-0.12, 0.12)], 1)
    grid = F.affine_grid(torch.stack([rows, columns], 1), list(pixels.shape), align_corners=False)
    seen = F.grid_sample(pixels.float() / 255, grid, mode="bilinear", padding_mode="border", align_corners=False)
    if inked is not None:
        ink, paper = (torch.rand(count, 3, 1, 1, device=device) for _ in range(2))
        legible = (ink - paper).abs().mean(1, keepdim=True) > 0.25
        cover = 1 - seen[:, :1]
        use = (inked & (torch.rand(count, device=device) < 0.5))[:, None, None, None] & legible
        seen = torch.where(use, ink * cover + paper * (1 - cover), seen)
    contrast, light = 1 + between(-0.25, 0.25), between(-0.125, 0.125)
    seen = (seen - 0.5) * contrast[:, None, None, None] + 0.5 + light[:, None, None, None]
    return (seen - MEAN) / DEVIATION


@torch.no_grad()
def head(model: CLIPModel, tokens: Tensor) -> Tensor:
    """The zero-shot head of classes [c, 3 wordings, length]: unit features, averaged over the wordings, unit again."""
    features = [model.text_projection(model.text_model(tokens[:, k]).pooler_output) for k in range(tokens.shape[1])]
    return F.normalize(torch.stack([F.normalize(f, dim=-1) for f in features]).mean(0), dim=-1)


@torch.no_grad()
def accuracies(model: CLIPModel, heads: dict[str, Tensor], splits: dict) -> dict[str, float]:
    found = {}
    for task, parts in splits.items():
        right = 0
        for start in range(0, len(parts["test"].labels), 1_000):
            pictures = normalised(parts["test"].pixels[start : start + 1_000])
            seen = model.visual_projection(model.vision_model(pictures).pooler_output)
            right += int(((seen @ heads[task].T).argmax(1) == parts["test"].labels[start : start + 1_000]).sum())
        found[task] = round(100 * right / len(parts["test"].labels), 2)
    return found


def save(model: CLIPModel, tokenizer: CLIPTokenizer, folder: Path) -> None:
    import copy

    from transformers import CLIPImageProcessor

    copy.deepcopy(model).half().save_pretrained(folder, max_shard_size="14MB")
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        image_mean=[MEAN] * 3,
        image_std=[DEVIATION] * 3,
    ).save_pretrained(folder)


if __name__ == "__main__":
    main()
