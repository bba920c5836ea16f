"""Iso-CTS: the common directions of the sum, and a few of each model's own, all of one length.

    U_c S_c V_c^T = the top k directions of sum_i d_i                  k = r - n s,  r = min(rows, columns)
    U_i S_i V_i^T = the top s directions of d_i - U_c U_c^T d_i        s = round((r - floor(common * r)) / n)
    U = [U_c U_1 ... U_n] = P D Q^T -> P Q^T, the same for V
    out = scale * mean(S_c, S_1, ..., S_n) * U V^T

Marczak et al. 2025, arXiv:2502.04959. Same as the released code (read as FusionBench ships it): the common share is
rounded down first, then what is left to each model to the nearest, so that a 33 x 17 layer of 7 models has k = 10 and
s = 1 (with few rows s may be 0, and this is Iso-C);
the mean runs over common and own values alike.
Differs from it: s never exceeds r / n (theirs can, with a tiny matrix); directions with no singular value stay zero
and are not counted in the mean (theirs gives them arbitrary vectors).

Use it in place of `iso_c` for many or very different tasks: what a single task needs keeps some room beside what all
share. Avoid it for few models or small matrices, where each model's own share rounds to no direction at all and this
is `iso_c` for more work: one more decomposition per model, a small one where a layer has no more outputs than inputs.

Its parameters:
    common: the share of the directions that the sum of all changes decides; the rest is split among the models. Try
        `0.6` to `0.9`.
    scale: multiplies the merged change. Try `1` to `2`.

Example:
    merge: {iso_cts: {common: 0.8, scale: 1.5}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from smelt.methods.method import Fraction, Stack, merge_method
from smelt.ops.order import share
from smelt.ops.products import gram, image, product, strips
from smelt.ops.spectral import basis, noise, split
from smelt.ops.whitening import whitened

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "iso_cts",
    unit="matrix",
    paper="2502.04959",
    stretches=True,
    exempt={"copies": "the spectrum is made flat and mostly that of a sum, by definition"},
    latex=(
        r"\sum_i d_i \approx U_c S_c V_c^{\top} \;(\text{top } k) \\ "
        r"d_i - U_c U_c^{\top} d_i \approx U_i S_i V_i^{\top} \;(\text{top } s) \\ "
        r"U = polar\left[U_c\, U_1 \cdots U_n\right] \\ V = polar\left[V_c\, V_1 \cdots V_n\right] \\ "
        r"r = \min(rows, columns) \\ s = round\,\frac{r - \lfloor common \cdot r \rfloor}{n} \\ k = r - n s \\ "
        r"level = mean(S_c, S_1, \dots, S_n) \\ out = base + scale \cdot level \cdot U V^{\top}"
    ),
)
def iso_cts(deltas: Stack, *, common: Fraction = 0.8, scale: float = 1.0) -> Tensor:
    import torch

    models, rows, columns = deltas.shape
    rank, floor = min(rows, columns), noise(deltas)
    own = min(round((rank - share(rank, common)) / models), rank // models)
    tall = rows > columns
    values, left, right = (_tall if tall else _wide)(deltas, rank - models * own, own, floor)
    level = torch.cat(values).sum() / max(1, sum(map(len, values)))
    long, short = (left, right) if tall else (right, left)
    inner = torch.cat(short, dim=1).mT * level
    # On the left, a model's own directions are orthogonal to the common ones by construction, so only they are turned.
    shared = left[0].shape[1]
    if not tall:
        inner[shared:] = whitened(left[1:], inner[shared:])
    inner = whitened(right, inner)
    if tall:
        inner[shared:] = whitened(left[1:], inner[shared:])
    merged = torch.empty_like(deltas[0])
    gain = torch.linalg.vector_norm(inner) / (level * len(inner) ** 0.5)
    product(torch.cat(long, dim=1), inner, merged if tall else merged.mT, gain=gain)
    return merged.mul_(scale)


_Parts: TypeAlias = tuple[list["Tensor"], list["Tensor"], list["Tensor"]]
"""Singular values, left and right directions: the common ones first, then each model's own."""


def _wide(deltas: Stack, top: int, own: int, floor: float) -> _Parts:
    """Of matrices with no more rows than columns. What is left of a model lies in the rows' few other directions."""
    values, shared, rest = split(gram(deltas.mT), floor=floor, top=top)
    parts: _Parts = [values], [shared], [image(deltas.mT, shared / values)]
    for delta in deltas if own else ():
        left_over = image(delta.mT, rest)
        values, turn = basis(gram(left_over), floor=floor, top=own)
        for part, found in zip(parts, (values, rest @ turn, left_over @ (turn / values)), strict=True):
            part.append(found)
    return parts


def _tall(deltas: Stack, top: int, own: int, floor: float) -> _Parts:
    """Of matrices with more rows than columns. What is left of a model is never written out, only its Gram matrix."""
    import torch

    values, right = basis(gram(deltas), floor=floor, top=top)
    shared = image(deltas, right / values)
    parts: _Parts = [values], [shared], [right]
    for delta in deltas if own else ():
        seen = torch.zeros(right.shape[::-1], dtype=torch.float64, device=deltas.device)
        for place, strip in strips(delta):
            seen.addmm_(shared[place].mT, strip)
        values, turn = basis(gram(delta).sub_(gram(seen)), floor=floor, top=own)
        scaled = turn / values
        left = image(delta, scaled).addmm_(shared, seen @ scaled, alpha=-1)
        for part, found in zip(parts, (values, left, turn), strict=True):
            part.append(found)
    return parts
