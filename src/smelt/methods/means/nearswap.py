"""NearSwap: move the base towards a model, but no entry further than `t`.

    w = min(1, t / |d|)      out = base + w d        which is base + d clamped to [-t, t]

alchemonaut 2024 (huggingface.co/alchemonaut/QuartetAnemoi-70B-t0.0001).

Use it to give the base a touch of one other model: no weight moves further than `t`, whatever the other model is.
Avoid it where a whole skill is wanted: the largest changes, which carry most of it, are cut the most. It takes one
model beside the base.

Its parameters:
    t: how far a weight may move at most, in the units of the weights. Try `1e-4` to `1e-2`; the author merged with the
        first.

Example:
    merge: {nearswap: {t: 0.001}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "nearswap",
    models=(1, 1),
    exempt={"copies": "changes beyond t are cut off, by definition"},
    latex=r"out = base + \min\left(1, \frac{t}{|d|}\right) d",
)
def nearswap(deltas: Stack, *, t: Annotated[float, Field(ge=0)]) -> Tensor:
    return deltas[0].clamp(-t, t)
