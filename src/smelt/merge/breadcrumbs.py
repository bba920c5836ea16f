"""Model breadcrumbs: drop the largest changes as outliers and the smallest as noise.

    of each tensor's |d|: drop the `top` share, keep the next `density` share, drop the rest

Davari & Belilovsky 2023, arXiv:2312.06795. A step before any method; ranks within each tensor, as in the paper.
Where density and top add up to more than 1, fewer of the largest are dropped.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from smelt.merge.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.order import Cut, Largest, share
from smelt.ops.prune import keep_above


def _band(density: list[float], top: list[float]) -> Largest:
    def ranks(row: int, count: int) -> list[int]:
        kept = share(count, density[row])
        dropped = min(share(count, top[row]), count - kept)
        return [dropped, dropped + kept]

    return Largest(ranks)


@merge_step(
    "breadcrumbs", paper="2312.06795", prepare=_band, exempt={"copies": "a trimmed change is not the whole change"}
)
def breadcrumbs(
    deltas: Stack,
    band: list[list[Cut]],
    *,
    density: PerModel[Fraction] = 0.9,
    top: PerModel[Annotated[float, Field(ge=0, lt=1)]] = 0.01,
) -> Stack:
    return torch.stack([
        keep_above(row, row, below) - keep_above(row, row, above)
        for row, (above, below) in zip(deltas, band, strict=True)
    ])
