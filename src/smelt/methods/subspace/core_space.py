"""Core space: merge low-rank changes as small square matrices between the left and right bases they share.

    U: basis of the columns of [d_1 ... d_n]         V: basis of the rows of [d_1; ...; d_n]
    coordinates: U^T d_i V         back: U merged V^T

Panariello et al. 2025, arXiv:2509.17786. Lossless: the bases span all that the changes do, so for LoRA adapters of
rank k the method sees n matrices of at most (n k, n k).
Differs from the authors' code: the spans come from the changes d_i = B_i A_i themselves (a product is what a delta
is), not from the factors B_i and A_i. The spans are the same; the axes inside them differ. Methods that do not mind
a rotation (average, tsv, iso_c, ...) give the same result, those that look at entries (ties, dare) another.
`rank` bounds both bases; None keeps all that is above the rounding noise. Deltas taken from checkpoints in which the
adapter was already merged carry the rounding of the base weights too: there, set `rank` to the adapters' total.

Use it for LoRA adapters, before a method that decomposes matrices (`tsv`, `iso_c`, `wudi`): it then works on n·rank
square matrices instead of whole layers, and loses nothing. Avoid it for full fine-tunes, whose changes have full rank:
nothing becomes smaller. Before `ties` or `dare`, `knots` is the basis that was made for them.

Its parameters:
    rank: at most so many directions on each side; left out, all above the rounding noise are kept. Try the summed rank
        of the adapters, such as `16` to `64`, where they were merged into checkpoints.

Example:
    pool:
      base: zoo:llava-tiny
      models: {digits: zoo:mllm10-digits, flags: zoo:mllm10-flags, letters: zoo:mllm10-letters}
    merge: [core_space, {iso_c: {scale: 1.0}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Stack, merge_basis
from smelt.ops.spectral import row_space

if TYPE_CHECKING:
    from torch import Tensor


def _back(merged: Tensor, basis: tuple[Tensor, Tensor]) -> Tensor:
    import torch

    left, right = basis
    return (left @ merged.to(torch.float64) @ right.mT).to(merged.dtype)


@merge_basis(
    "core_space",
    back=_back,
    paper="2509.17786",
    stretches=True,
    latex=(
        r"U = basis\left[d_1 \cdots d_n\right] \\ V = basis\left[d_1^{\top} \cdots d_n^{\top}\right] \\ "
        r"c_i = U^{\top} d_i V \\ out = U\,merged(c_1, \dots, c_n)\,V^{\top}"
    ),
)
def core_space(
    deltas: Stack, *, rank: Annotated[int, Field(ge=1)] | None = None
) -> tuple[Stack, tuple[Tensor, Tensor]]:
    import torch

    left, right = row_space(deltas.mT, rank=rank)[1], row_space(deltas, rank=rank)[1]
    if not left.shape[1]:  # all changes are zero, and an empty stack is no stack
        left, right = (torch.eye(size, 1, dtype=torch.float64, device=deltas.device) for size in deltas.shape[1:])
    cores = [left.mT @ delta.to(torch.float64) @ right for delta in deltas]
    return torch.stack(cores).to(deltas.dtype), (left, right)
