"""TSV-Merge: each model keeps its strongest singular directions, which are then made orthogonal to one another.

    d_i ~ U_i S_i V_i^T, the top r/n directions (r = min(rows, columns), at least one)
    U = [U_1 ... U_n] = P D Q^T -> P Q^T, the same for V         out = scale * U S V^T

Gargiulo et al. 2024, arXiv:2412.00081. Same as the released code (read in the copies that later
papers ship): r/n is rounded down, and `scale` is 1.
Differs from it: with more models than r each keeps one direction (theirs keeps none and returns zero); directions
with no singular value (a low-rank or untouched layer) are left out, and directions that coincide share the one they
span. There the authors' SVD fills in arbitrary vectors, which then depend on the order of the models.

Use it for full fine-tunes of several tasks without data: in clip8 it stood well above `ties` and `task_arithmetic` at
its default scale, with nothing to tune. Avoid it for very many models, of which each keeps only one n-th of its
directions, and where merging must be quick: each matrix of each model is decomposed.

Its parameters:
    scale: multiplies the merged change. Try `0.8` to `1.5`.

Example:
    merge: {tsv: {scale: 1.0}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.products import gram, image, product
from smelt.ops.spectral import basis
from smelt.ops.whitening import whitened

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "tsv",
    unit="matrix",
    paper="2412.00081",
    stretches=True,
    exempt={"copies": "each of n models keeps one n-th of its directions, so n copies give a low-rank version back"},
    latex=(
        r"d_i \approx U_i S_i V_i^{\top} \;\left(\text{the top } r/n\right) \\ "
        r"U = polar\left[U_1 \cdots U_n\right] \\ V = polar\left[V_1 \cdots V_n\right] \\ "
        r"out = base + scale \cdot U S V^{\top}"
    ),
)
def tsv(deltas: Stack, *, scale: float = 1.0) -> Tensor:
    import torch

    models, rows, columns = deltas.shape
    tall = deltas if rows >= columns else deltas.mT
    top = max(1, min(rows, columns) // models)
    values, short = zip(*(basis(gram(delta), top=top) for delta in tall), strict=True)
    long = torch.empty(tall.shape[1], sum(map(len, values)), dtype=torch.float64, device=deltas.device)
    parts = torch.split(long, [len(own) for own in values], dim=1)
    for delta, own, vectors, part in zip(tall, values, short, parts, strict=True):
        image(delta, vectors / own, out=part)
    # The long sides are multiplied once, at the end: what makes them orthogonal acts on the short ones.
    lengths = torch.cat(values)
    inner = whitened(short, torch.cat(short, dim=1).mT).mul_(lengths[:, None])
    del short
    inner = whitened(parts, inner)
    merged = torch.empty_like(deltas[0])
    gain = torch.linalg.vector_norm(inner) / torch.linalg.vector_norm(lengths)
    product(long, inner, merged if tall is deltas else merged.mT, gain=gain)
    return merged.mul_(scale)
