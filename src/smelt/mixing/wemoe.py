"""WEMoE: every MLP keeps the experts apart and mixes their weights anew for each sample; the rest is one model.

    MLP of sample s:  W + Σ_i g_si (W_i - W),  g_s = mean over its tokens of router(h)       everything else:
    W + scale Σ_i (W_i - W).  Routers: Linear(h, h), ReLU, Linear(h, n); last bias `scale`, weights N(0, 0.01).

Only the routers are learned: the mean entropy of the predictions on unlabelled examples of each task, summed
(`loss: labels` takes the cross-entropy instead), by Adam. Tang et al. 2024, arXiv:2402.00433.

Same as the authors' code: the routers' form and start, the loss, the defaults. Differs from it: a sample's gates never
depend on the rest of its batch (theirs are averaged over the batch at evaluation, so that a result depends on the batch
size); adaptation uses held-out examples unless the recipe says `split: test`; models and tasks are paired by name.

Sparse: `top` keeps the k gates of largest magnitude of each sample, the others are zero. They are not renormalised: a
gate is an amount of change, not a share of a whole. `density` keeps the largest entries of every change and drops the
rest, which E-WEMoE (Shen et al. 2024, arXiv:2410.21804) does too; it also shares one router between all blocks, which
is not done here. SMILE (Tang et al. 2024, arXiv:2408.10174) is another thing: experts of low rank by singular values,
chosen by how far the input lies in their subspace, with nothing learned.

Use it where a larger model is no matter and unlabelled examples of each task are at hand: the experts' MLPs stay whole,
and in clip8 no merge reached it. Avoid it where one model of the usual size and speed is wanted: the output holds every
expert's MLPs, and only Smelt runs it.

Its parameters:
    scale: of the rest's task arithmetic, and of every expert where the routers begin. Try `0.2` to `0.5`.
    steps: steps of learning the routers. Try `200` to `1000`; 0 leaves them as they begin.
    lr: Adam's learning rate. Try `1e-5` to `1e-3`.
    batch: examples of each task in a step. Try `8` to `64`.
    patience: left out, all steps are taken; with a number, a tenth of the examples is held out, and learning ends when
        the loss on it has not fallen for so many steps, `steps` at the latest. Try `50` to `200`.
    loss: what falls: the `entropy` of the answers, or the cross-entropy with the `labels`.
    top: experts that a sample may use at once; left out, all of them. Try `1` to `3`.
    density: the share of every routed change that is kept, the largest. Try `0.1` to `1`.
    delta_dtype: the format of the routed changes, in memory and on disk: `float32`, or `bfloat16` or `float16` for half
        the bytes.
    routed: a pattern of the modules that are routed; left out, the MLPs of the family. Try a pattern of whole MLPs,
        such as `vision_model.encoder.layers.*.mlp`.

Example:
    merge: {wemoe: {steps: 500}}
    data: {split: val}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from smelt.methods.method import Fraction, Positive
from smelt.mixing.mixers import mixer

__all__ = ["WeMoE"]


@mixer(
    "wemoe",
    paper="2402.00433",
    latex=(
        r"W_s = W + \sum_i g_{s i}\,(W_i - W) \quad \text{in the MLPs} \\ "
        r"g_s = mean_h\, router(h) \quad \text{over its tokens } h \\ "
        r"W' = W + scale \sum_i (W_i - W) \quad \text{elsewhere}"
    ),
)
@dataclass(frozen=True, kw_only=True)
class WeMoE:
    __doc__ = __doc__

    scale: float = 0.3
    steps: Annotated[int, Field(ge=0)] = 1000
    lr: Positive = 1e-4
    batch: Annotated[int, Field(ge=1)] = 16
    patience: Annotated[int, Field(ge=1)] | None = None
    loss: Literal["entropy", "labels"] = "entropy"
    top: Annotated[int, Field(ge=1)] | None = None
    density: Fraction = 1.0
    delta_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    routed: str | None = None
