"""AdaMerging: how much of each model's change to add, learned so that the merged model is sure of its answers.

    W_k = base_k + sum_i λ_{i,k} τ_{i,k}           min_λ  sum_t  mean_x  H( softmax f_t(W, x) )

`level: tensor` is the paper's "layer-wise" (a coefficient per model and parameter tensor), `task` its task-wise one (a
coefficient per model), `layer` one per block of the network. No labels are looked at, unless `loss: labels` asks for
cross-entropy instead of the entropy H.

Yang et al. 2024, arXiv:2310.02575. Differs from the released code and FusionBench: adapts on the `val` split unless
`data: {split: test}` says to do as they do; the result is an ordinary recipe of task arithmetic.

Use it where unlabelled examples of each task are at hand and a minute or two of training is no matter: it finds for
every tensor how much of each model to add. Avoid it for tasks whose experts are unsure: entropy falls fastest where
the model is sure already, and in clip8 the hardest task ended below the base. On tasks that it did not adapt to it
lost the most of all merges that were tried. `regmean` needs fewer examples.

Its parameters:
    level: what has a coefficient of its own for each model: `tensor` every tensor, `layer` every block of the network,
        `task` the model as a whole.
    init: where every coefficient begins. Try `0.1` to `0.5`, a good scale of task arithmetic.
    lr: Adam's learning rate. Try `1e-4` to `1e-2`.
    steps: how often the coefficients are changed. Try `200` to `1000`.
    batch: examples of each task in a step. Try `8` to `64`.
    patience: left out, all steps are taken; with a number, a tenth of the examples is held out, and learning ends when
        the loss on it has not fallen for so many steps, `steps` at the latest. Try `50` to `200`.
    clamp: `true` keeps every coefficient between 0 and 1, `false` leaves them free.
    loss: what falls: the `entropy` of the answers, or the cross-entropy with the `labels`.
    deltas: where the models' changes lie while it learns: `memory`, or `disk` where they do not fit.
    delta_dtype: the format of the changes while it learns: `float32`, or `bfloat16` or `float16` for half the memory.

Example:
    merge: {adamerging: {level: tensor, steps: 500}}
    data: {split: val}
"""

from __future__ import annotations

from smelt.learning.coefficients import Coefficients
from smelt.learning.differentiable_merge import MergedObjective, Weighted
from smelt.learning.learner import Count, LearnedMerge, Where, Work, learner
from smelt.learning.task_vectors import DeltaDtype
from smelt.learning.tensor_groups import Level
from smelt.methods.method import Positive
from smelt.optimise.losses import Loss


@learner(
    "adamerging",
    paper="2310.02575",
    latex=(
        r"W_k = base_k + \sum_i \lambda_{i,k}\, d_{i,k} \\ "
        r"\min_{\lambda} \sum_t mean_x\; H\left(softmax\, f_t(W, x)\right)"
    ),
)
def adamerging(
    work: Work,
    *,
    level: Level = "tensor",
    init: float = 0.3,
    lr: Positive = 1e-3,
    steps: Count = 1000,
    batch: Count = 16,
    patience: Count | None = None,
    clamp: bool = False,
    loss: Loss = "entropy",
    deltas: Where = "memory",
    delta_dtype: DeltaDtype = "float32",
) -> LearnedMerge:
    merge = Weighted(work.deltas(deltas, delta_dtype), level, init, clamp=clamp)
    trace = work.optimise(MergedObjective(merge, work.passes, loss), steps=steps, lr=lr, batch=batch, patience=patience)
    rows = merge.coefficients.double().tolist()
    values = {name: tuple(row) for name, row in zip(work.models, rows, strict=True)}
    found = Coefficients(level, merge.groups, values)
    return LearnedMerge(found.merge(work.names), trace, coefficients=found)
