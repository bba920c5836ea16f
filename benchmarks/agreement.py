"""Do two merged models agree? Names and shapes always; values where the method draws no random numbers.

In: two output folders. Out: an `Agreement`. Tensors are compared one at a time, in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Agreement:
    """How two outputs compare. The values are None when only names and shapes were compared."""

    tensors: int
    problems: list[str] = field(default_factory=list)
    max_abs_difference: float | None = None
    differing_share: float | None = None


def compare_outputs(expected: Path, actual: Path, *, values: bool) -> Agreement:
    """Compare the tensors of two folders."""
    left, right = _index(expected), _index(actual)
    problems = [f"{name}: missing" for name in sorted(left.keys() - right.keys())]
    problems += [f"{name}: not expected" for name in sorted(right.keys() - left.keys())]
    problems += [
        f"{name}: shape {right[name][1]}, expected {left[name][1]}"
        for name in sorted(left.keys() & right.keys())
        if left[name][1] != right[name][1]
    ]
    if problems or not values:
        return Agreement(len(left), problems)
    largest, differing, total = 0.0, 0, 0
    for name in left:
        one, other = _load(left[name][0], name), _load(right[name][0], name)
        gap = (one - other).abs()
        here = gap.max().item()
        # max() would drop a NaN, depending on the order
        largest = math.nan if math.isnan(here) or math.isnan(largest) else max(largest, here)
        differing += int((gap != 0).sum())
        total += gap.numel()
    return Agreement(len(left), [], largest, differing / total)


def _index(folder: Path) -> dict[str, tuple[Path, list[int]]]:
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 (the handle is not iterable)
                found[name] = (path, file.get_slice(name).get_shape())
    return found


def _load(path: Path, name: str) -> torch.Tensor:
    with safe_open(path, "pt") as file:
        return file.get_tensor(name).float()
