"""Boosting: what makes Portland choose well. With labels cross-entropy, without them the entropy of the answers.

supervised   mean_x  -log p_y                semi   mean_x  -sum_c p_c log(p_c + 1e-6)         p = softmax(o_ens)
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from torch import Tensor
from torch.nn.functional import cross_entropy

from smelt.errors import RecipeError, unknown

__all__ = ["BOOSTING", "Boosting", "boosting"]

Boosting: TypeAlias = Literal["supervised", "semi"]
BOOSTING: tuple[Boosting, ...] = get_args(Boosting)

_FLOOR = 1e-6


def boosting(kind: Boosting, logits: Tensor, labels: Tensor | None) -> Tensor:
    """The mean over examples. `semi` does not look at the labels, which may be missing."""
    if kind == "semi":
        p = logits.softmax(dim=-1)
        return -(p * (p + _FLOOR).log()).sum(dim=-1).mean()
    if kind != "supervised":
        raise RecipeError(unknown("boosting", kind, BOOSTING))
    if labels is None:
        raise RecipeError("supervised boosting needs labels; without them there is boosting='semi'")
    return cross_entropy(logits, labels)
