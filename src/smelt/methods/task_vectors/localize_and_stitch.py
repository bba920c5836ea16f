"""Localize-and-Stitch without data: each model keeps its largest changes, overlaps are averaged.

    m_i = the top `density` of |d_i| over the whole model      out = base + sum_i m_i d_i / max(1, sum_i m_i)

He et al. 2024, arXiv:2408.13656. Where k masks overlap each contributes 1/k (the released code is wrong for k = 3).

Use it for experts of several tasks without data: each keeps a small region of its own, and where they do not meet
nothing is lost. One number to choose. Avoid it for adapters of low rank, whose change is spread over all entries
(`knots` and `ties`), and where data are at hand: `localize` learns the regions.

Its parameters:
    density: the share of each model's changes that it keeps, the largest over the whole model. Try `0.1` to `0.5`, the
        grid of MergeBench.

Example:
    merge: {localize_and_stitch: {density: 0.1}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Fraction, PerModel, Stack, merge_method
from smelt.ops.geometry import mean_of_present
from smelt.ops.order import Cut, Largest, keep_shares
from smelt.ops.prune import keep_rows

if TYPE_CHECKING:
    from torch import Tensor


def _localize(density: list[float]) -> Largest | None:
    return keep_shares(density, scope="model")


@merge_method(
    "localize_and_stitch",
    paper="2408.13656",
    prepare=_localize,
    exempt={"copies": "a trimmed change is not the whole change"},
    latex=(
        r"m_i = [\,|d_i| \text{ in the top density of the model}\,] \\ "
        r"out = base + \frac{\sum_i m_i d_i}{\max\left(1, \sum_i m_i\right)}"
    ),
)
def localize_and_stitch(deltas: Stack, cuts: list[list[Cut]] | None, *, density: PerModel[Fraction] = 0.1) -> Tensor:
    return mean_of_present(keep_rows(deltas, [row[0] for row in cuts]) if cuts else deltas)
