"""What Portland is fitted for: answers that are right or sure (boosting), and experts in balance (alignment).

boosting    supervised   mean_x -log p_y               p = softmax(o_ens)
            semi         mean_x -sum_c p_c log(p_c + 1e-6): the entropy of the answers, which needs no labels
alignment   scalar       mean_x (sum_i beta_i zs_i)^2  zs: the z-scores (ddof 1) of s_i, each expert's sum of offsets
            gram         mean_x beta' G beta           G_ij = <eps_i, eps_j> / trace: the squared length of the offset
            off          0

Alignment holds the weighted offset of the experts, sum_i beta_i eps_i, near zero. `scalar` is what the authors'
released code does, a surrogate; `gram` is what it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.learning.neulig.experts import Experts

__all__ = ["ALIGNMENTS", "BOOSTING", "AlignmentKind", "Boosting", "OffsetAlignment", "boosting"]

Boosting: TypeAlias = Literal["supervised", "semi"]
BOOSTING: tuple[Boosting, ...] = get_args(Boosting)
_FLOOR = 1e-6

AlignmentKind: TypeAlias = Literal["scalar", "gram", "off"]
ALIGNMENTS: tuple[AlignmentKind, ...] = get_args(AlignmentKind)


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


@dataclass(frozen=True, eq=False)
class OffsetAlignment:
    """The loss of one set of experts: `numbers` is s [n] for scalar, G [n, n] for gram, nothing for off."""

    kind: AlignmentKind
    numbers: Tensor | None = None

    def __post_init__(self) -> None:
        if self.kind not in ALIGNMENTS:
            raise RecipeError(unknown("alignment", self.kind, ALIGNMENTS))
        wanted = {"scalar": 1, "gram": 2, "off": 0}[self.kind]
        if (0 if self.numbers is None else self.numbers.ndim) != wanted:
            given = "nothing" if self.numbers is None else f"a tensor of {tuple(self.numbers.shape)}"
            meant = {"scalar": "the offsets [n]", "gram": "the Gram matrix [n, n]", "off": "nothing"}[self.kind]
            raise RecipeError(f"alignment {self.kind!r} is made from {meant} of the experts, got {given}")

    @classmethod
    def of(cls, experts: Experts, kind: AlignmentKind = "scalar") -> OffsetAlignment:
        """The loss for these experts."""
        if kind == "scalar":
            return cls(kind, experts.offsets())
        return cls(kind, experts.gram() if kind == "gram" else None)

    def __call__(self, beta: Tensor) -> Tensor:
        """One number for coefficients [m, n], differentiable in them."""
        if self.numbers is None:
            return beta.new_zeros(())
        if self.kind == "gram":
            return ((beta @ self.numbers.to(beta)) * beta).sum(dim=-1).mean()
        return (beta @ z_scores(self.numbers).to(beta)).square().mean()


def z_scores(s: Tensor) -> Tensor:
    """(s - mean) / std with the sample's std; zeros where all are equal."""
    spread = s.std()
    return (s - s.mean()) / spread if spread > 0 else torch.zeros_like(s)
