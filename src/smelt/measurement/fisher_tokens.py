"""Diagonal Fisher information of a language model: how its answers' log-probability changes with each weight.

    sampled        F = sum_n ( d sum_t log p(y_t | text before t) )^2        y_t drawn from p, token by token
    empirical      the same                                                  y_t the example's own answer

An example's gradient is the sum over its answer's tokens, and is squared then. The text before a token is the given
one in both, so that the draws of an example need one pass only. `exact` is not for language models: it sums over all
answers that there are, and already one token of it has as many classes as the vocabulary has words.

One example at a time, without the ways of squared_gradients.py: a text has so many tokens that its own matrix products
keep a processor busy, any architecture is differentiated as it stands, and nothing is filled up. A gradient is squared
and added in the moment in which it is known, and let go: beside the weights there are the sums, and one tensor's
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smelt.errors import RecipeError
from smelt.measurement.fisher_directions import uniform_draw
from smelt.measurement.streaming_sums import NoScores

if TYPE_CHECKING:
    from smelt.measurement.streaming_sums import Work
    from smelt.models.families.causal_lm.batch import TokenBatch
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream

__all__ = ["TOKEN_ESTIMATORS", "check_token_estimator", "drawn_tokens", "per_text"]

TOKEN_ESTIMATORS = ("sampled", "empirical")
_AT_ONCE = 64
"""Tokens whose probabilities are summed up in float64 at once."""


def check_token_estimator(estimator: str, vocabulary: int) -> None:
    """Refuse what cannot be computed for texts."""
    if estimator in TOKEN_ESTIMATORS:
        return
    why = {
        "exact": f"it sums over all classes, and every token of an answer has {vocabulary:,} of them",
        "batched_sqrt": f"it adds up all classes of a batch, and every token of an answer has {vocabulary:,} of them",
    }
    raise RecipeError(
        f"estimator={estimator!r} is not for language models: {why[estimator]}; "
        "use `sampled` (answers drawn from the model) or `empirical` (the given answers)"
    )


def per_text(network: Network, stream: ExampleStream, estimator: str, seed: int) -> Work:
    """The work of one thread: the squared gradients of some examples, summed in float32."""
    weights = network.weights()

    def work(places: range) -> dict[str, Tensor]:
        totals = {key: torch.zeros_like(tensor) for key, tensor in weights.items()}
        leaves = {key: tensor.detach().requires_grad_() for key, tensor in weights.items()}
        for key, leaf in leaves.items():
            leaf.register_post_accumulate_grad_hook(_into(totals[key]))  # type: ignore[no-untyped-call]
        for place in places:
            inputs: TokenBatch = stream.batch([place]).inputs
            with torch.enable_grad():
                logits = network.logits(leaves, inputs, None)
                if not bool(logits.detach().isfinite().all()):
                    raise NoScores
                given = inputs.targets if estimator == "empirical" else drawn_tokens(logits, place, seed, stream.name)
                loss = torch.nn.functional.cross_entropy(logits, given, reduction="sum")
                if loss.requires_grad:
                    loss.backward()  # type: ignore[no-untyped-call]
        return totals

    return work


def drawn_tokens(logits: Tensor, place: int, seed: int, task: str) -> Tensor:
    """One token for each row of scores, drawn from its probabilities; a draw belongs to the example and the place."""
    drawn = []
    for start in range(0, len(logits), _AT_ONCE):
        p = logits[start : start + _AT_ONCE].detach().float().softmax(dim=-1).cpu()
        levels = p.to(torch.float64).cumsum(dim=-1)
        chance = [[uniform_draw(f"{seed}\0{task}\0{place}\0{start + number}")] for number in range(len(p))]
        found = torch.searchsorted(levels, torch.tensor(chance, dtype=torch.float64) * levels[:, -1:], right=True)
        drawn.append(found[:, 0].clamp(max=p.shape[-1] - 1))
    return torch.cat(drawn).to(logits.device)


def _into(total: Tensor) -> Callable[[Tensor], None]:
    def hook(leaf: Tensor) -> None:
        assert leaf.grad is not None
        total.addcmul_(leaf.grad, leaf.grad)
        leaf.grad = None

    return hook
