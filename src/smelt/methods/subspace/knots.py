"""KnOTS: merge low-rank changes as coordinates in the one left basis that all of them share.

    [d_1 ... d_n] = U S [V_1^T ... V_n^T]         coordinates: S V_i^T = U^T d_i         back: U merged

Stoica et al. 2024, arXiv:2410.19735. Same as the authors' code (its default `s_on_V`): the singular values stay on the
coordinates, so that methods which rank by magnitude see each direction at its real weight; merging plain V_i^T and
multiplying by U S afterwards, as others do, gives the same for every linear method but not for ties or dare.
Differs from it: a direction is dropped when it is rounding noise of this layer, not below a fixed 1e-5; `rank` keeps
only the strongest ones. Without `rank` nothing is lost. U needs the Gram matrix of the rows only, and no SVD.

Use it for LoRA adapters, before `ties`, `dare` or `trim`: the same entry of two adapters means different things, and
in the shared basis it means the same. Avoid it for full fine-tunes, and before methods that only add (`average`,
`task_arithmetic`): these give the same without it.

Its parameters:
    rank: at most so many directions, the strongest; left out, all above the rounding noise are kept. Try the summed
        rank of the adapters, such as `16` to `64`, where they were merged into checkpoints.

Example:
    pool:
      base: zoo:llava-tiny
      models: {digits: zoo:mllm10-digits, flags: zoo:mllm10-flags, letters: zoo:mllm10-letters}
    merge: [knots, {ties: {density: 0.3}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Stack, merge_basis
from smelt.ops.spectral import row_space

if TYPE_CHECKING:
    from torch import Tensor


def _back(merged: Tensor, basis: Tensor) -> Tensor:
    import torch

    return (basis @ merged.to(torch.float64)).to(merged.dtype)


@merge_basis(
    "knots",
    back=_back,
    paper="2410.19735",
    stretches=True,
    latex=(
        r"\left[d_1 \cdots d_n\right] = U S \left[V_1^{\top} \cdots V_n^{\top}\right] \\ "
        r"c_i = S V_i^{\top} = U^{\top} d_i \\ out = U\,merged(c_1, \dots, c_n)"
    ),
)
def knots(deltas: Stack, *, rank: Annotated[int, Field(ge=1)] | None = None) -> tuple[Stack, Tensor]:
    import torch

    basis = row_space(deltas.mT, rank=rank)[1]
    if not basis.shape[1]:  # all changes are zero, and an empty stack is no stack
        basis = torch.eye(deltas.shape[1], 1, dtype=torch.float64, device=deltas.device)
    coordinates = [basis.mT @ delta.to(torch.float64) for delta in deltas]
    return torch.stack(coordinates).to(deltas.dtype), basis
