"""Both towers of a CLIP model as functions, what it knows of a task's classes, how good it is, and how it is saved.

The model is a `CLIPModel` or a `VisionTextDualEncoderModel`: the two have their towers and projections under the same
names. A ResNet's pooled output is [n, width, 1, 1], which transformers' own dual encoder does not expect; it is
flattened here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

from material import Material
from views import DEVIATION, MEAN, normalised

_compiled: dict[int, tuple] = {}


def towers(model: Any):
    """Unit features of pictures and of texts; those of a CLIPModel are compiled once for a GPU."""
    if id(model) not in _compiled:

        def see(pictures: Tensor) -> Tensor:
            return F.normalize(picture_features(model, pictures), dim=-1)

        def read(tokens: Tensor) -> Tensor:
            return F.normalize(model.text_projection(model.text_model(tokens).pooler_output), dim=-1)

        compiled = torch.cuda.is_available() and isinstance(model, CLIPModel)
        _compiled[id(model)] = (torch.compile(see), torch.compile(read)) if compiled else (see, read)
    return _compiled[id(model)]


def picture_features(model: Any, pictures: Tensor) -> Tensor:
    return model.visual_projection(model.vision_model(pictures).pooler_output.flatten(1))


def rate_of(rate: float, steps: int, *, warm: int) -> Callable[[int], float]:
    """The learning rate of a step: a short rise, then half a cosine down to a hundredth."""

    def at(step: int) -> float:
        rise = min(1.0, (step + 1) / min(warm, steps // 5 + 1))
        return rate * rise * (0.99 * 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.01)

    return at


@torch.no_grad()
def head(model: Any, tokens: Tensor) -> Tensor:
    """The zero-shot head of classes [c, 3 wordings, length]: unit features, averaged over the wordings, unit again."""
    features = [model.text_projection(model.text_model(tokens[:, k]).pooler_output) for k in range(tokens.shape[1])]
    return F.normalize(torch.stack([F.normalize(f, dim=-1) for f in features]).mean(0), dim=-1)


@torch.no_grad()
def accuracies(model: Any, heads: dict[str, Tensor], material: Material, split: str = "test") -> dict[str, float]:
    """In percent, on all pictures of a split of every task that has a head."""
    model.eval()
    found = {}
    for task in heads:
        part, right = material.splits[task][split], 0
        for start in range(0, len(part.labels), 1_000):
            pictures = normalised(part.pixels[start : start + 1_000])
            seen = picture_features(model, pictures)
            right += int(((seen @ heads[task].T).argmax(1) == part.labels[start : start + 1_000]).sum())
        found[task] = round(100 * right / len(part.labels), 2)
    return found


def save(model: Any, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """A `from_pretrained` folder in half precision."""
    copy.deepcopy(model).half().save_pretrained(folder, max_shard_size="14MB")
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        image_mean=[MEAN] * 3,
        image_std=[DEVIATION] * 3,
    ).save_pretrained(folder)
