"""A collaboration suite of pico models: two experts, two tasks, levels that can be checked by hand.

Pool `Turned` is that of pico_suite.py: towers that call every colour by another one's name, so that merging and
ensembling differ. Pool `Linear` has experts that differ from their base in the last norm's weight and bias alone, in
which features are linear: merging is ensembling there, whatever the coefficients are. Pool `Second` has the experts of
`Turned` with some noise, and `Conv` convolutional towers with BatchNorm.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from pico_clip import COLOURS, colour_pictures, random_conv_clip, save_clip, tuned_conv_clip, write_task
from pico_suite import turned_clip
from smelt.evaluation.row import Row
from smelt.suites.run import BenchResult
from smelt.tasks.pictures.mosaic import write_mosaic

TASKS = {"plain": ["red", "green", "blue"], "turned": ["blue", "red", "green"]}
EXPERTS = list(TASKS)
BASELINES: dict[str, Any] = {
    "average": {"label": "Simple averaging", "merge": "average", "ensemble": True},
    "task_arithmetic": {
        "label": "Task arithmetic",
        "merge": {"task_arithmetic": {"scale": 0.3}},
        "ensemble": True,
    },
    "ties": {"label": "TIES", "merge": {"ties": {"density": 0.5}}, "only": ["Turned, 2 experts"]},
    "adamerging": {
        "label": "AdaMerging",
        "merge": {"adamerging": {"steps": 2, "lr": 0.01}},
        "data": {"split": "val"},
        "ensemble": True,
        "only": ["Turned, 2 experts"],
    },
    "wemoe": {
        "label": "Weight-ensembling MoE",
        "merge": {"wemoe": {"steps": 2, "lr": 0.01}},
        "data": {"split": "val"},
        "ensemble": True,
        "only": ["Turned, 2 experts"],
    },
    "average_bn": {
        "label": "Simple averaging, BatchNorm re-estimated",
        "merge": "average",
        "batch_norm": True,
        "only": ["Conv, 2 experts"],
    },
}


def task_with_train(folder: Path, classes: list[str]) -> Path:
    """A task of coloured pictures with a `train` split of 36, beside 30 of `val` and 30 of `test`."""
    splits = ("train", "val", "test")
    write_task(folder, classes=classes, data={"mosaics": {s: f"{s}.png" for s in splits}, "labels": "labels.npz"})
    pictures, labels = colour_pictures(dict.fromkeys(COLOURS, 12), seed=7)
    write_mosaic(folder / "train.png", pictures, compress_level=1)
    np.savez(folder / "labels.npz", train=labels, **dict(np.load(folder / "labels.npz")))
    return folder


def last_norm_clip(turn: int, seed: int) -> Any:
    """The base of `Turned` with a last norm of its own."""
    model = turned_clip(turn)
    norm, draw = model.vision_model.post_layernorm, torch.Generator().manual_seed(seed)
    with torch.no_grad():
        norm.weight.add_(0.8 * torch.randn(norm.weight.shape, generator=draw))
        norm.bias.add_(0.8 * torch.randn(norm.bias.shape, generator=draw))
    return model


def shaken(model: Any, seed: int) -> Any:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.vision_model.parameters():
            tensor.add_(0.01 * torch.randn(tensor.shape, generator=draw))
    return model


def write_models(root: Path) -> dict[str, Any]:
    """All pools by name; folders hold the models."""
    made = {
        "turned": {"base": turned_clip(1), "plain": turned_clip(0), "turned": turned_clip(2)},
        "second": {"plain": shaken(turned_clip(0), 1), "turned": shaken(turned_clip(2), 2)},
        "linear": {"plain": last_norm_clip(1, 1), "turned": last_norm_clip(1, 2)},
        "conv": {"base": random_conv_clip(0), "plain": tuned_conv_clip(1), "turned": tuned_conv_clip(2)},
    }
    refs = {
        pool: {name: str(save_clip(model, root / "models" / pool / name)) for name, model in models.items()}
        for pool, models in made.items()
    }
    base = refs["turned"]["base"]
    return {
        pool.title(): {"base": models.get("base", base), "models": {name: models[name] for name in EXPERTS}}
        for pool, models in refs.items()
    }


def write_tasks(root: Path) -> None:
    for name, classes in TASKS.items():
        task_with_train(root / "tasks" / name, classes)


def write_collaboration(root: Path, pools: dict[str, Any], **words: Any) -> Path:
    """The suite's YAML in a folder; `words` change the suite, and None takes one away."""
    suite = {
        "kind": "collaboration",
        "name": "together",
        "version": 1,
        "title": "Two experts of one pico model",
        "limit": 12,
        "pools": pools,
        "groups": {f"{pool}, 2 experts": {"pool": pool, "experts": EXPERTS} for pool in pools if pool != "Second"},
        "include": ["vision_model.*"],
        "baselines": BASELINES,
        "fit": {"examples": 30, "validation": 9, "epochs": 2, "batch": 10},
        "variants": ["Turned, 2 experts"],
        "batch_norm": ["Conv, 2 experts"],
        "transfer": {"group": "Turned, 2 experts", "to": "Second", "epochs": [1, 2]},
        "fractions": {"groups": ["Turned, 2 experts"], "fractions": [0.1, 1.0]},
    }
    path = root / "together.yaml"
    content = {word: value for word, value in {**suite, **words}.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


ALONE: dict[str, Any] = {
    "groups": {"Turned, 2 experts": {"pool": "Turned", "experts": EXPERTS}},
    "baselines": {"average": BASELINES["average"]},
    "boosting": ["semi"],
    **dict.fromkeys(["variants", "batch_norm", "transfer", "fractions"]),
}
"""Words of a suite of three quick steps: references, a merge, NeuLig."""


@dataclass(frozen=True)
class Together:
    """The collaboration suite on disk, one whole run of it, and what that run said."""

    root: Path
    suite: Path
    pools: dict[str, Any]
    done: BenchResult
    told: list[str]

    def rows(self, **words: Any) -> list[Row]:
        rows = [row for row in self.done.rows if isinstance(row, Row)]
        return [row for row in rows if all(getattr(row, word) == value for word, value in words.items())]
