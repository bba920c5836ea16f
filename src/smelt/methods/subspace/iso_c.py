"""Iso-C: the sum of the changes with a flat spectrum, so that no direction drowns the others.

    sum_i d_i = U S V^T         out = scale * mean(S) * U V^T

Marczak et al. 2025, arXiv:2502.04959. Same as the released code (read as FusionBench ships it)
wherever the sum has full rank.
Differs from it: directions in which the sum has no singular value stay zero and are not counted in the mean. The
authors' SVD fills them with arbitrary vectors of mean length, which depend on the order of the models.

Use it for experts of many tasks without data: strong directions that a few tasks share no longer drown the others. It
is cheap for a method that decomposes, one matrix for all models. Avoid it for one model or near copies, whose spectrum
is not flat for a reason: weak directions are raised too, noise among them.

Its parameters:
    scale: multiplies the merged change. Try `1` to `2`; the level is the mean singular value of the sum, so few models
        want more.

Example:
    merge: {iso_c: {scale: 1.5}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.products import gram, mirrored, product
from smelt.ops.spectral import basis, noise

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "iso_c",
    unit="matrix",
    paper="2502.04959",
    stretches=True,
    exempt={"copies": "the spectrum is made flat and that of a sum, by definition"},
    latex=r"\sum_i d_i = U S V^{\top} \\ out = base + scale \cdot mean(S)\, U V^{\top}",
)
def iso_c(deltas: Stack, *, scale: float = 1.0) -> Tensor:
    import torch

    tall = deltas if deltas.shape[1] >= deltas.shape[2] else deltas.mT
    values, vectors = basis(gram(tall), floor=noise(deltas))
    level = values.sum() / max(1, len(values))
    # With A = U S V^T, U V^T = A (V S^-1 V^T): the long side is never written out.
    inverse = mirrored(gram((vectors * values.rsqrt()).mT))
    merged = torch.empty_like(deltas[0])
    gain = torch.linalg.vector_norm(values) * torch.linalg.vector_norm(inverse) / max(1, len(values))
    product(tall, inverse.mul_(level), merged if tall is deltas else merged.mT, gain=gain)
    return merged.mul_(scale)
