"""Whether merges on a device give the bits of merges on the CPU, method by method, without kernels and with them.

In: a device. Out: a row for each method: how many of the numbers differ, and by how much at most. What a fold sums in
float64 is summed in another order there, so a step length or a factor may differ in its last digit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

import smelt
from gpu_resident import METHODS
from smelt.engine.run.gpu import kernel

MORE: dict[str, Any] = {
    "ties_tensor": {"ties": {"density": 0.3, "trim": "tensor", "tie": "positive", "weights": [0.5, 1.5, 1.0]}},
    "ties_max": {"ties": {"density": 0.5, "merge": "max", "elect": "count"}},
    "trim_l1": [{"trim": {"density": 0.2, "rescale": "l1"}}, "average"],
    "dare_l1": [{"dare": {"density": [0.9, 0.2, 1.0], "rescale": "l1"}}, {"ties": {"density": 1.0}}],
    "della": [{"della": {"density": 0.5, "window": 0.3}}, {"task_arithmetic": {"scale": 0.3}}],
    "karcher": "karcher",
}


def agreement(device: str) -> Iterator[dict[str, Any]]:
    """A row for each method and form."""
    draw = torch.Generator().manual_seed(5)
    sizes = {"a": (1 << 17) + 77, "b": 1 << 18, "c": 3000}
    base = {name: torch.randn(size, generator=draw).mul_(0.02).bfloat16() for name, size in sizes.items()}
    tunes = [
        {name: (one + torch.randn(one.shape, generator=draw) * 0.001).bfloat16() for name, one in base.items()}
        for _ in range(3)
    ]
    for name, method in (METHODS | MORE).items():
        models = tunes[:2] if name == "slerp" else tunes
        expected: Any = smelt.merge(models, base=base, method=method)
        for form in ("0", "1"):
            os.environ["SMELT_KERNELS"] = form
            kernel.refused.clear()
            ours: Any = smelt.merge(models, base=base, method=method, device=device)
            pairs = [(ours[key].float(), one.float()) for key, one in expected.items()]
            yield {
                "method": name,
                "form": "kernel" if form == "1" else "plain",
                "differ": sum(int((left != right).sum()) for left, right in pairs),
                "of": sum(one.numel() for one in expected.values()),
                "by_at_most": max(float((left - right).abs().max()) for left, right in pairs),
                "kernels_refused": list(kernel.refused),
            }
            del os.environ["SMELT_KERNELS"]
