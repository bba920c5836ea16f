"""AdaRank: which singular directions of each model's change to add, learned so that the merged model is sure.

    τ_i = U_i diag(s_i) V_iᵀ        W = base + scale sum_i U_i diag(s_i ∘ m_i) V_iᵀ        m = [a > 0]

The masks m are 0 or 1. Their gradient passes through the step as through a sigmoid (straight-through): dL/da = dL/dm ·
σ'(a). All directions of linear layers begin switched on (or the largest share `init` of each); other tensors are added
up under the same scale. The masks become statistics of the stage `adarank`.

Lee et al. 2025, arXiv:2503.22178. Differs from it: the scale is fixed, not learned along.

Use it where unlabelled examples of each task are at hand; what it learns is kept and merged by the stage `adarank`.
Avoid it where `tsv` or `wudi` will do, which need no data.

Its parameters:
    scale: multiplies the sum of the pruned changes; it is not learned. Try `0.2` to `0.5`.
    init: the share of each layer's directions that begin switched on, the largest. Try `0.2` to `1`.
    lr: Adam's learning rate. Try `1e-3` to `1e-1`.
    steps: how often the masks are changed. Try `200` to `1000`.
    batch: examples of each task in a step. Try `8` to `64`.
    loss: what falls: the `entropy` of the answers, or the cross-entropy with the `labels`.
    deltas: where the models' changes lie while it learns: `memory`, or `disk` where they do not fit.
    delta_dtype: the format of the changes while it learns: `float32`, or `bfloat16` or `float16` for half the memory.

Example:
    merge: {adarank: {scale: 0.3, steps: 500}}
    data: {split: val}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.learner import Count, LearnedMerge, Where, Work, learner
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import DeltaDtype, TaskVectors
from smelt.methods.method import Fraction, Positive
from smelt.ops.spectral import svd
from smelt.optimise.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

_START = 0.5
"""How far from the step the numbers behind the masks begin."""


class Components:
    """base + scale sum_i U_i diag(s_i m_i) V_iᵀ with a learned number behind each m."""

    def __init__(self, deltas: TaskVectors, scale: float, init: float, passes: Passes):
        import torch

        self._names, self._scale, self.keys = deltas.names, scale, deltas.keys
        self.words = {"scale": scale, "init": init}
        matrices = [key for key, tensor in deltas.base.items() if Layout.is_matrix(key, tuple(tensor.shape))]
        if not matrices:
            raise RecipeError(
                "adarank chooses among the singular directions of linear layers, and no merged tensor is a matrix; "
                "`adamerging` learns coefficients for tensors of any shape"
            )
        self._left: dict[str, Tensor] = {}
        self._values: dict[str, Tensor] = {}
        self._right: dict[str, Tensor] = {}
        self._base = dict(deltas.base)
        passes.each(lambda key: self._fixed(deltas, key), [key for key in self.keys if key not in set(matrices)])
        passes.each(lambda key: self._split(deltas, key), matrices)
        self.parameters = {key: self._start(self._values[key], init) for key in matrices}
        self._merged = {key: torch.empty_like(self._base[key]) for key in matrices}

    def weight(self, key: str) -> Tensor:
        import torch

        if key not in self._merged:
            return self._base[key]
        strength = (self.parameters[key] > 0) * self._values[key] * self._scale
        return torch.addmm(
            self._base[key], self._left[key] * strength.view(-1), self._right[key], out=self._merged[key]
        )

    def pull(self, key: str, gradient: Tensor, into: Mapping[str, Tensor]) -> None:
        if key in self._merged:
            along = ((self._left[key].T @ gradient) * self._right[key]).sum(dim=1)
            into[key].addcmul_(along.view_as(into[key]), self._values[key], value=self._scale)

    def settle(self, gradients: Mapping[str, Tensor]) -> None:
        import torch

        for key, gradient in gradients.items():
            open_ = torch.sigmoid(self.parameters[key])
            gradient.mul_(open_ * (1 - open_))

    def masks(self, model: str) -> dict[str, Tensor]:
        """1 for every singular direction of a model that is kept, largest singular value first."""
        number = self._names.index(model)
        return {key: (scores[number] > 0).float() for key, scores in self.parameters.items()}

    def _fixed(self, deltas: TaskVectors, key: str) -> Tensor:
        merged = deltas.base[key].clone()
        for row in deltas.rows(key):
            merged.view(-1).add_(row, alpha=self._scale)
        self._base[key] = merged
        return merged

    def _split(self, deltas: TaskVectors, key: str) -> Tensor:
        """All models' directions side by side: one matrix product merges them."""
        base = deltas.base[key]
        rank, count = min(base.shape), len(self._names)
        left, right = base.new_zeros(len(base), count, rank), base.new_zeros(count, rank, base.shape[1])
        values = base.new_zeros(count, rank)
        for number, model in enumerate(self._names):
            found = svd(deltas.delta(model, key))
            size = len(found.values)
            left[:, number, :size], right[number, :size] = found.left, found.right
            values[number, :size] = found.values
        self._left[key], self._right[key] = left.flatten(1), right.flatten(0, 1)
        self._values[key] = values
        return values

    @staticmethod
    def _start(values: Tensor, init: float) -> Tensor:
        import torch

        on = torch.arange(values.shape[1], device=values.device) < round(init * values.shape[1])
        return torch.where(on, _START, -_START).expand(values.shape).clone()


@learner(
    "adarank",
    paper="2503.22178",
    latex=(
        r"d_i = U_i\, diag(s_i)\, V_i^{\top} \\ m = [a > 0] \\ "
        r"W = base + scale \sum_i U_i\, diag(s_i \circ m_i)\, V_i^{\top}"
    ),
)
def adarank(
    work: Work,
    *,
    scale: float = 0.3,
    init: Fraction = 1.0,
    lr: Positive = 1e-2,
    steps: Count = 500,
    batch: Count = 16,
    loss: Loss = "entropy",
    deltas: Where = "memory",
    delta_dtype: DeltaDtype = "float32",
) -> LearnedMerge:
    merge = Components(work.deltas(deltas, delta_dtype), scale, init, work.passes)
    trace = work.optimise(MergedObjective(merge, work.passes, loss), steps=steps, lr=lr, batch=batch)
    for model in work.models:
        work.keep(model, "components", merge.masks(model))
    return LearnedMerge([{"adarank": {"scale": scale}}], trace)
