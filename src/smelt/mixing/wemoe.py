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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from smelt.methods.method import Fraction, Positive
from smelt.mixing.mixers import mixer

__all__ = ["WeMoE"]


@mixer("wemoe", paper="2402.00433")
@dataclass(frozen=True, kw_only=True)
class WeMoE:
    __doc__ = __doc__

    scale: float = 0.3
    """Of the rest, and of every expert where the routers begin."""
    steps: Annotated[int, Field(ge=0)] = 1000
    """Of learning; 0 leaves the routers as they begin."""
    lr: Positive = 1e-4
    batch: Annotated[int, Field(ge=1)] = 16
    """Examples of each task in a step."""
    loss: Literal["entropy", "labels"] = "entropy"
    top: Annotated[int, Field(ge=1)] | None = None
    """Experts that a sample may use at once; all of them by default."""
    density: Fraction = 1.0
    """The share of every routed change that is kept."""
    delta_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """The format of the routed changes, in memory and on disk."""
    routed: str | None = None
    """A pattern of the modules that are routed; the family's MLPs by default."""
