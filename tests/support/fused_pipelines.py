"""Pipelines that the fused backends run, and small models to run them on: for a CPU and for a GPU."""

from __future__ import annotations

from typing import Any

import torch

_UP = {"tie": "positive"}
PIPELINES: list[Any] = [
    "average",
    {"average": {"weights": [0.2, 0.5, 0.1]}},
    {"average": {"weights": [0.2, 0.5, 0.1], "normalize": False}},
    {"task_arithmetic": {"scale": 0.37}},
    {"task_arithmetic": {"scale": 0.37, "weights": [1.0, -0.3, 2.0], "normalize": True}},
    "model_stock",
    {"model_stock": {"over": "row"}},
    {"model_stock": {"over": "row", "floor": 1e-3}},
    [{"dare": {"density": 0.5}}, {"model_stock": {"over": "row"}}],
    "ram",
    {"ram": {"epsilon": 0.002}},
    {"multislerp": {"weights": [0.3, 0.3, 0.4]}},
    {"multislerp": {"around": "base"}},
    "karcher",
    {"ties": {"density": 0.3}},
    {"ties": {"density": 0.3, "trim": "tensor", **_UP}},
    {"ties": {"density": [0.2, 0.5, 1.0], "weights": [0.5, 1.5, 1.0], "merge": "sum", "scale": 0.7}},
    {"ties": {"density": 0.5, "merge": "max", "elect": "count"}},
    {"ties": {"density": 1.0, "weights": [1.0, -0.5, 1.0]}},
    {"sce": {"density": 0.4}},
    {"sce": {"density": 1.0, **_UP}},
    [{"trim": {"density": 0.2}}, {"task_arithmetic": {"scale": 0.3}}],
    [{"trim": {"density": 0.2, "trim": "tensor", "rescale": "l1"}}, "average"],
    [{"trim": {"density": [0.1, 0.5, 1.0], "rescale": "l1"}}, {"task_arithmetic": {"scale": 0.3}}],
    [{"dare": {"density": 0.4}}, {"task_arithmetic": {"scale": 0.3}}],
    [{"dare": {"density": [0.9, 0.2, 1.0], "rescale": "l1"}}, {"ties": {"density": 1.0}}],
    [{"dare": {"density": 0.4, "rescale": "none"}}, {"ties": {"density": 0.5}}],
    [{"della": {"density": 0.5, "window": 0.3}}, {"task_arithmetic": {"scale": 0.3}}],
    [{"della": {"density": [0.4, 1.0, 0.7], "window": 0.2, "rescale": "l1"}}, {"ties": {"density": 1.0}}],
    [{"della": {"density": 0.6, "window": 0.4, "rescale": "none"}}, {"ties": {"density": 0.5}}],
    [{"della": {"density": 0.5, "window": 1e-7, "rescale": "none"}}, "average"],
    [{"breadcrumbs": {"density": 0.8, "top": 0.05}}, {"task_arithmetic": {"scale": 0.3}}],
    [{"breadcrumbs": {"density": 0.5, "top": 0.1, "rescale": "l1"}}, {"ties": {"density": 1.0}}],
    [{"dare": {"density": 0.5}}, {"trim": {"density": 0.2}}, {"ties": {"density": 0.9}}],
]
TWO: list[Any] = [
    {"slerp": {"t": 0.3}},
    {"nuslerp": {"weights": [0.4, 0.6]}},
    {"nuslerp": {"around": "base"}},
    {"nuslerp": {"weights": [0.4, 0.6], "over": "row"}},
    {"nuslerp": {"around": "base", "over": "row"}},
]
ONE: list[Any] = [
    "passthrough",
    {"passthrough": {"scale": 0.7}},
    {"nearswap": {"t": 0.002}},
    {"nearswap": {"t": 0.0}},
    "arcee_fusion",
]


def fine_tunes(count: int, dtypes: list[torch.dtype], seed: int = 0) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """A base and fine-tunes: many equal entries, exact zeros among the changes, lengths that fill no register."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (37, 61), "b.weight": (1,), "c.weight": (3, 1024), "d.bias": (2050,)}
    base = {name: torch.randn(shape, generator=draw) * 0.05 for name, shape in shapes.items()}

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        change = torch.randn(tensor.shape, generator=draw) * 0.004
        return tensor + change * (torch.rand(tensor.shape, generator=draw) > 0.2)

    tunes = [{name: changed(tensor) for name, tensor in base.items()} for _ in range(count)]
    cast = [{name: tensor.to(dtypes[n]) for name, tensor in one.items()} for n, one in enumerate([base, *tunes])]
    return cast[0], cast[1:]
