"""Model breadcrumbs: drop the largest changes as outliers and the smallest as noise.

    of each tensor's |d|: drop the `top` share, keep the next `density` share, drop the rest

Davari & Belilovsky 2023, arXiv:2312.06795. A step before any method; ranks within each tensor, as in the paper.
Where density and top add up to more than 1, fewer of the largest are dropped. `rescale: l1` restores the summed
magnitude of each tensor.

Use it before a sum of many changes, where a few outliers of single models would drown the rest. Avoid it where the
largest changes are the skill itself. At its defaults it drops little, and in clip8 task arithmetic did as well without
it.

Its parameters:
    density: the share of each tensor's entries that stays, from below the dropped top. Try `0.1` to `0.9`.
    top: the share of the largest entries that is dropped as outliers. Try `0.005` to `0.03`.
    rescale: `none` leaves what stays as it is; `l1` multiplies it so that each tensor's summed magnitude is what it
        was.

Example:
    merge: [{breadcrumbs: {density: 0.5, top: 0.01}}, {task_arithmetic: {scale: 0.4}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from smelt.methods.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.fold import Fold
from smelt.ops.order import Cut, Largest, share
from smelt.ops.prune import as_column, keep_above, with_l1

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _band(density: list[float], top: list[float], rescale: str) -> Fold:
    def ranks(row: int, count: int) -> list[int]:
        kept = max(1, share(count, density[row]))
        dropped = min(share(count, top[row]), count - kept)
        return [dropped, dropped + kept]

    band = Largest(ranks)
    return with_l1(band, _keep) if rescale == "l1" else band


def _keep(deltas: Stack, band: list[list[Cut]]) -> Stack:
    import torch

    kept = torch.empty_like(deltas)
    for out, row, (above, below) in zip(kept, deltas, band, strict=True):
        keep_above(row, below, out).sub_(keep_above(row, above))
    return kept


@merge_step(
    "breadcrumbs",
    paper="2312.06795",
    prepare=_band,
    exempt={"copies": "a trimmed change is not the whole change"},
    latex=(
        r"d'_k = d_k \left[\,top \le \frac{rank\,|d_k|}{N} < top + density\,\right] \\ "
        r"\text{ranks in a tensor of size } N, \text{ largest first}"
    ),
)
def breadcrumbs(
    deltas: Stack,
    found: list[list[Cut]] | tuple[list[list[Cut]], NDArray[np.float64]],
    *,
    density: PerModel[Fraction] = 0.9,
    top: PerModel[Annotated[float, Field(ge=0, lt=1)]] = 0.01,
    rescale: Literal["none", "l1"] = "none",
) -> Stack:
    if isinstance(found, tuple):
        band, factors = found
        return _keep(deltas, band).mul_(as_column(factors, deltas))
    return _keep(deltas, found)
