"""What a prediction is judged by: its own entropy where there are no labels, cross-entropy where there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LOSSES", "Loss", "entropy", "labelled"]

Loss: TypeAlias = Literal["entropy", "labels"]


def entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-sum_c p_c log p_c of each example; the labels are not looked at."""
    from torch.nn.functional import log_softmax

    log_p = log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


def labelled(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p of each example's true class."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits, labels, reduction="none")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"entropy": entropy, "labels": labelled}
