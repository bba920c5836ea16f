"""NearSwap: move the base towards a model, but no entry further than `t`.

    w = min(1, t / |d|)      out = base + w d        which is base + d clamped to [-t, t]

alchemonaut 2024 (huggingface.co/alchemonaut/QuartetAnemoi-70B-t0.0001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method("nearswap", models=(1, 1), exempt={"copies": "changes beyond t are cut off, by definition"})
def nearswap(deltas: Stack, *, t: Annotated[float, Field(ge=0)]) -> Tensor:
    return deltas[0].clamp(-t, t)
