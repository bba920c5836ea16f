"""Localize-and-Stitch: for each model a mask of the few changes that make it good at its task, learned from labels.

    min_S  mean_x loss( f(base + σ(S) ∘ τ_i, x) ) + l1 · mean σ(S)         m_i = [ S among the top `density` ]

One real number S for every weight, begun at +3 where |τ| is among the largest `density` of the model, at -3 elsewhere.
Models are trained one after the other, each on its own task alone, so that memory holds one change at a time; the base
is never altered. The masks become statistics of the stage `stitch`, which averages where they overlap. A language model
that does not fit is differentiated block by block, with S in main memory: the same numbers, in 7 bytes a weight of GPU
memory where the checkpoints are in bfloat16 (`smelt.learning.localize_memory` has the sums).

He et al. 2024, arXiv:2408.13656. Differs from the released code: the mask has exactly the `density` asked for, the
largest S over the whole model (theirs keeps σ(S) > 0.5, whatever share that is, and steers it by the L1 weight); the L1
term is the mean of the mask, not the sum; Adam instead of SGD.

Use it where labelled examples of each task are at hand: it learns which few weights carry each skill, in clip8 with
more success than taking the largest changes. Avoid it without labels (`localize_and_stitch`), and where time is short:
every model is trained on its own.

Its parameters:
    density: the share of each model's changes that its mask keeps. Try `0.05` to `0.3`.
    l1: how strongly open masks are penalised while it learns. Try `0` to `10`.
    lr: Adam's learning rate for the numbers behind the masks. Try `0.01` to `0.3`.
    steps: steps for each model. Try `50` to `300`.
    batch: examples in a step. Try `16` to `64`.
    loss: what falls: the cross-entropy with the `labels`, or the `entropy` of the answers.
    deltas: where the models' changes lie while it learns: `memory`, or `disk` where they do not fit.
    delta_dtype: the format of the changes while it learns: `float32`, or `bfloat16` or `float16` for half the memory.
    step_by: how a step goes through the network: the whole `model` at once, or `block` by block, which takes a quarter
        of the memory and more time; `auto` takes the model where it fits.

Example:
    merge: {localize: {density: 0.1, steps: 100}}
    data: {split: train, examples: 1000}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field

from smelt.learning.block_passes import BlockwiseObjective, blockwise
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.largest_scores import each_top
from smelt.learning.learner import Count, LearnedMerge, Where, Work, learner
from smelt.learning.localize_memory import StepBy
from smelt.learning.localize_room import step_with_room
from smelt.learning.one_change import OneChange
from smelt.learning.task_vectors import DeltaDtype, TaskVectors
from smelt.methods.method import Fraction, Positive
from smelt.optimise.losses import Loss

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_START = 3.0
_Weight: TypeAlias = Annotated[float, Field(ge=0)]


class _Masked:
    """base + σ(S) ∘ τ of one model, and the L1 term.

    By block nothing is kept but S, and that in main memory: merged tensors are made anew at every call.
    """

    def __init__(self, deltas: TaskVectors | OneChange, density: float, l1: float, *, by_block: bool = False):
        import torch

        (self._model,) = deltas.names
        self._deltas, self._l1, self._density = deltas, l1, density
        self.keys = deltas.keys
        self.words = {"l1": l1}
        self.parameters = {
            key: _in_main_memory(start, deltas.device) if by_block else start
            for key, kept in each_top(self.keys, lambda key: deltas.delta(self._model, key).abs(), density)
            for start in (torch.where(kept, _START, -_START),)
        }
        self._count = sum(scores.numel() for scores in self.parameters.values())
        self._merged = {} if by_block else {key: torch.empty_like(tensor) for key, tensor in deltas.base.items()}

    def weight(self, key: str) -> Tensor:
        import torch

        out = torch.sigmoid(self._scores(key), out=self._merged.get(key))
        return out.mul_(self._deltas.delta(self._model, key)).add_(self._deltas.base[key])

    def _scores(self, key: str) -> Tensor:
        return self.parameters[key].to(self._deltas.device, non_blocking=True)

    def pull(self, key: str, gradient: Tensor, into: Mapping[str, Tensor]) -> None:
        into[key].addcmul_(gradient, self._deltas.delta(self._model, key))

    def settle(self, gradients: Mapping[str, Tensor]) -> None:
        import torch

        for key, gradient in gradients.items():
            open_ = torch.sigmoid(self._scores(key))
            gradient.add_(self._l1 / self._count).mul_(open_ * (1 - open_))

    def mask(self) -> dict[str, Tensor]:
        """Which changes are kept, in main memory."""
        return {key: kept.cpu() for key, kept in each_top(self.parameters, self._scores, self._density)}


def _in_main_memory(tensor: Tensor, device: torch.device) -> Tensor:
    """Pinned where it will travel."""
    import torch

    if device.type == "cpu":
        return tensor
    home = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=device.type == "cuda")
    return home.copy_(tensor)


@learner(
    "localize",
    paper="2408.13656",
    split="train",
    examples=1000,
    room=step_with_room,
    latex=(
        r"W = base + \sigma(S) \circ d_i \\ \min_S\; mean_x\, loss\left(f(W, x)\right) + l1 \cdot mean\, \sigma(S) \\ "
        r"m_i = [\, S \text{ among the top density} \,]"
    ),
)
def localize(
    work: Work,
    *,
    density: Fraction = 0.1,
    l1: _Weight = 1.0,
    lr: Positive = 0.1,
    steps: Count = 100,
    batch: Count = 32,
    loss: Loss = "labels",
    deltas: Where = "memory",
    delta_dtype: DeltaDtype = "float32",
    step_by: StepBy = "auto",
) -> LearnedMerge:
    def masked(model: str) -> list[dict[str, Any]]:
        """Learn and keep one model's mask; what it took is let go before the next."""
        change = work.change(model, deltas, delta_dtype) if by_block else work.deltas(deltas, delta_dtype, model)
        merge = _Masked(change, density, l1, by_block=by_block)
        objective = (BlockwiseObjective if by_block else MergedObjective)(merge, work.passes, loss)
        lines = work.optimise(objective, steps=steps, lr=lr, batch=batch, model=model, save_last=False)
        work.keep(model, "mask", merge.mask())
        return lines

    trace, by_block = [], step_by == "block"
    with blockwise(work.passes.network).narrowed() if by_block else nullcontext():
        for model in work.models:
            before = work.kept(model)
            trace += [{"model": model, **line} for line in (masked(model) if before is None else before)]
    return LearnedMerge([{"stitch": {}}], trace)
