"""LiNeS: shallow layers, which hold what all tasks share, move less than deep ones.

    out = (low + (high - low) * depth) * merged            depth: 0 at the first block, 1 at the last

Wang et al. 2024, arXiv:2410.17146, where low is called alpha and high is alpha + beta. The defaults follow the
paper's rule for a single fine-tuned model: the last block keeps its change whole (high = 1), and low lies halfway
along the 0..1 that the authors search. Their rule for several models multiplies the plain SUM of the changes, with
low = 1/n (the average) and high = low + beta, beta searched in 0..1: write `task_arithmetic: {scale: 1}` before it.
Differs from the authors' code: tensors outside the blocks have the depth that the engine gives them (there: low).

Use it after a sum of changes of several tasks: early layers hold what all tasks share and want less change. In clip8
it lifted task arithmetic by three points, at no cost. Avoid it for models whose blocks are not in one row, or after a
method that gives layers their scales itself (`adamerging`).

Its parameters:
    low: the factor at the first block. Try `0` to `0.5`; one over the number of models for a plain sum.
    high: the factor at the last block. Try `0.5` to `1`.

Example:
    merge: [{task_arithmetic: {scale: 1.0}}, {lines: {low: 0.33, high: 0.8}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Stack, merge_wrapper

if TYPE_CHECKING:
    from torch import Tensor


@merge_wrapper(
    "lines",
    paper="2410.17146",
    stretches=True,
    exempt={"copies": "shallow layers are scaled down, by definition"},
    latex=r"f = low + (high - low) \cdot depth \\ out = base + f \cdot merged",
)
def lines(
    merged: Tensor,
    _deltas: Stack,
    depth: float,
    *,
    low: Annotated[float, Field(ge=0)] = 0.5,
    high: Annotated[float, Field(ge=0)] = 1.0,
) -> Tensor:
    return merged * (low + (high - low) * depth)
