"""WUDI: the change that disturbs each model least on the inputs which that model's own change points at.

    loss(D) = sum_i |(D - d_i) d_i^T|^2 / |d_i|^2,         D starts at sum_i d_i
    D(t) = D* + (D(0) - D*) e^(-Ct) = D(0) + (B V f/l - D(0) V f) V^T,         f = 1 - e^(-l t),  D* C = B
    C = sum_i d_i^T d_i / |d_i|^2,  B = sum_i d_i d_i^T d_i / |d_i|^2,         V, l: eigenvectors and -values of C

The gradient of the loss is 2 (D C - B). So gradient flow has the closed form D(t) on the eigenvectors of C (whose trace
is the number of models, whatever the scale of the changes).
`solver: spectral` (also known as swudi, arXiv:2606.07289) evaluates it. `time` counts gradient steps of the natural
length 1 / (largest l), i.e. t = time / max(l): directions whose eigenvalue is above max(l) / time are solved, those
far below stay at the sum. The default 300 is the number of steps of the paper's optimiser; a large `time` gives the
exact minimum, which the authors of swudi report to be worse than stopping early. `top` solves only that
share of the directions, strongest first, and leaves the rest at the sum.
`solver: adam` is the paper's own optimiser, `steps` of Adam with learning rate `lr`. It is slow, and since Adam moves
every entry by about `lr` a step it depends on the size of the changes.

Cheng et al. 2025, arXiv:2503.08099. Differs from the released code (read as FusionBench ships it): a model
that left the layer untouched is left out of the loss (there: a division by zero); Adam is
given the gradient in the form above instead of by autograd.

Use it for full fine-tunes of several tasks without data: it was the best merge of clip8, those with data among them.
Avoid it where merging must be quick (`solver: adam` is slower still), and for a single model, which it gives back at
more cost.

Its parameters:
    solver: `spectral` evaluates the closed form; `adam` is the paper's optimiser, slower and dependent on the size of
        the changes.
    time: of `spectral`: how long the flow runs, in gradient steps; more solves weaker directions. Try `100` to `1000`.
    top: of `spectral`: the share of the directions that is solved, the strongest; left out, all. Try `0.1` to `0.5` to
        leave weak directions at the sum.
    steps: of `adam`: its steps. Try `300` to `1000`.
    lr: of `adam`: its learning rate; about how far an entry moves in a step. Try `1e-6` to `1e-4`, well below the size
        of the changes.

Example:
    merge: {wudi: {time: 300}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from smelt.methods.method import Fraction, Positive, Stack, merge_method
from smelt.ops.order import share
from smelt.ops.spectral import row_space

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "wudi",
    unit="matrix",
    paper="2503.08099",
    exempt={"copies": "it starts at the sum and stops early, so weak directions stay near n times the change"},
    latex=(
        r"loss(D) = \sum_i \frac{\left|(D - d_i)\, d_i^{\top}\right|^2}{|d_i|^2} \\ D(0) = \sum_i d_i \\ "
        r"D(t) = D^* + \left(D(0) - D^*\right) e^{-C t} \\ D^* C = B \\ "
        r"C = \sum_i \frac{d_i^{\top} d_i}{|d_i|^2} = V\, diag(l)\, V^{\top} \\ "
        r"B = \sum_i \frac{d_i d_i^{\top} d_i}{|d_i|^2}"
    ),
)
def wudi(
    deltas: Stack,
    *,
    solver: Literal["spectral", "adam"] = "spectral",
    time: Positive = 300.0,
    top: Fraction | None = None,
    steps: Annotated[int, Field(ge=1)] = 300,
    lr: Positive = 1e-5,
) -> Tensor:
    import torch

    if not deltas.any():
        return torch.zeros_like(deltas[0])
    return _flow(deltas, time, top) if solver == "spectral" else _adam(deltas, steps, lr)


def _flow(deltas: Stack, time: float, top: float | None) -> Tensor:
    import torch

    start, weights = deltas.sum(0, dtype=torch.float64), _weights(deltas)
    eigenvalues, vectors = row_space(deltas, weights=weights)
    if top is not None:
        solved = max(1, share(len(eigenvalues), top))
        eigenvalues, vectors = eigenvalues[:solved], vectors[:, :solved]
    filter_ = -torch.expm1(-eigenvalues * (time / eigenvalues[0]))
    change = _target(deltas, weights) @ vectors * (filter_ / eigenvalues) - start @ vectors * filter_
    return (start + change @ vectors.mT).to(deltas.dtype)


def _adam(deltas: Stack, steps: int, lr: float) -> Tensor:
    import torch

    weights = _weights(deltas)
    operator = torch.zeros(deltas.shape[2], deltas.shape[2], dtype=torch.float64, device=deltas.device)
    for delta, weight in zip(deltas, weights, strict=True):
        operator += weight * (exact := delta.to(torch.float64)).mT @ exact
    start, target = deltas.sum(0, dtype=torch.float64), _target(deltas, weights)
    # Adam turns any gradient, rounding too, into steps of length lr; so what cancels must cancel to zero exactly.
    slope = start @ operator - target
    slope = slope.where(slope.abs() > 1e-12 * target.abs().max(), 0.0).to(deltas.dtype)
    operator = operator.to(deltas.dtype)
    change = torch.zeros_like(slope)
    optimizer = torch.optim.Adam([change], lr=lr)
    for _ in range(steps):
        change.grad = 2 * (change @ operator + slope)
        optimizer.step()
    return (start + change).to(deltas.dtype)


def _weights(deltas: Stack) -> Tensor:
    """1 / |d_i|^2, and 0 for a model that left the layer untouched."""
    import torch

    squared = torch.linalg.vector_norm(deltas, dim=(1, 2), dtype=torch.float64).square()
    return torch.where(squared > 0, squared.reciprocal(), 0.0)


def _target(deltas: Stack, weights: Tensor) -> Tensor:
    """B, through the smaller of the two Gram matrices."""
    import torch

    _, rows, columns = deltas.shape
    target = torch.zeros(rows, columns, dtype=torch.float64, device=deltas.device)
    for delta, weight in zip(deltas, weights, strict=True):
        exact = delta.to(torch.float64)
        product = (exact @ exact.mT) @ exact if rows <= columns else exact @ (exact.mT @ exact)
        target += weight * product
    return target
