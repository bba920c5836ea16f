"""What the checkpoints of a training run weigh in their average, from a word and how many they are.

    uniform        all the same
    linear         1, 2, 3, ...
    exponential    a step weighs `decay` times the next one (`ema` is the same)
    wsm-linear     D(x) = 1 - x, which makes them uniform
    wsm-cosine     D(x) = (1 + cos(pi x)) / 2
    wsm-1-sqrt     D(x) = 1 - sqrt(x)

By the last three the average does what a decay D of the learning rate would have done (Tian et al. 2025,
arXiv:2507.17634): with n steps, the updates between step i - 1 and step i are scaled by D(i / n), so that step i weighs
D(i / n) - D((i + 1) / n), and D(1) = 0. The latest step is the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from smelt.errors import RecipeError, unknown

__all__ = ["Weighting", "step_weights"]

Weighting = Literal["uniform", "linear", "exponential", "ema", "wsm-linear", "wsm-cosine", "wsm-1-sqrt"]
_DECAYS: Mapping[str, Callable[[float], float]] = {
    "wsm-linear": lambda x: 1 - x,
    "wsm-cosine": lambda x: (1 + math.cos(math.pi * x)) / 2,
    "wsm-1-sqrt": lambda x: 1 - math.sqrt(x),
}


def step_weights(weighting: str, count: int, decay: float = 0.9) -> list[float]:
    """The weights of `count` steps; they sum to 1."""
    if weighting not in get_args(Weighting):
        raise RecipeError(unknown("way to weigh steps", weighting, get_args(Weighting)))
    if weighting in ("exponential", "ema") and not 0 < decay < 1:
        raise RecipeError(f"decay: {decay} is not between 0 and 1")
    if weighting in _DECAYS:
        rate = [_DECAYS[weighting](number / count) for number in range(count)] + [0.0]
        return [rate[number] - rate[number + 1] for number in range(count)]
    if weighting == "uniform":
        raw = [1.0] * count
    elif weighting == "linear":
        raw = [float(number) for number in range(1, count + 1)]
    else:
        raw = [decay ** (count - 1 - number) for number in range(count)]
    return [one / sum(raw) for one in raw]
