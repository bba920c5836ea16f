"""RegMean: the linear layer whose answers are nearest to those of every model on that model's own inputs.

    W = (sum_i W_i H_i) (sum_i H_i)^-1        H_i = G_i with off-diagonals times `reduction`, plus the ridge

G_i is the mean of x x^T over the inputs x of the layer on model i's own data: `smelt measure gram`. A layer is seen as
[out, in], so this is the paper's formula transposed. Norms, biases, embeddings and layers without a Gram matrix are
averaged. The ridge is `ridge` times the mean diagonal of the models' Gram matrices, the same for every model: it draws
to the plain average, not to zero. With reduction 1 and ridge 0 this is the least squares problem over all models'
inputs; with equal Gram matrices it is the average.

Jin et al. 2023, arXiv:2212.09849. Same as there: off-diagonals are reduced, by 0.95 for CLIP (language models want 0.1
to 0.9). Differs from the released code: solved by Cholesky in float64, never by an inverse, and a sum of Gram matrices
that is singular all the same is refused, with the tensor's name, instead of giving large numbers.
RegMean++ is this very merge with Gram matrices measured layer after layer on the merged model.

Use it where some hundred examples of each task are at hand, labelled or not: it is solved in closed form, and was the
best merge of llm5. Avoid it without data (`wudi` and `tsv` need none), and for very wide layers: every layer and model
has a Gram matrix of inputs × inputs in float64.

Its parameters:
    reduction: what off-diagonal entries of the Gram matrices are multiplied by; 0 is a mean weighted by input, 1 the
        plain least squares problem. Try `0.9` to `1` for vision models, `0.1` to `0.9` for language models.
    ridge: how strongly the solution is drawn to the plain average, relative to the mean diagonal. Try `1e-6` to
        `1e-2`; more with few examples.

Example:
    merge: {regmean: {reduction: 0.95}}
    data: {split: train, examples: 256}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from smelt.methods.method import Stack, merge_method
from smelt.ops.least_squares import gram_mean

if TYPE_CHECKING:
    from torch import Tensor

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]


@merge_method(
    "regmean",
    space="weight",
    unit="matrix",
    statistics="gram",
    paper="2212.09849",
    latex=(
        r"W = \left(\sum_i W_i H_i\right) \left(\sum_i H_i\right)^{-1} \\ "
        r"H_i = reduction \cdot G_i \\ \; {} + (1 - reduction)\,diag(G_i) + ridge \cdot g\, I \\ "
        r"G_i = mean_x\; x\,x^{\top} \\ g = \text{mean diagonal of all } G_i"
    ),
)
def regmean(stack: Stack, statistics: Stack, *, reduction: Share = 0.95, ridge: NotNegative = 1e-6) -> Tensor:
    return gram_mean(stack, statistics, reduction=reduction, ridge=ridge).to(stack.dtype)
