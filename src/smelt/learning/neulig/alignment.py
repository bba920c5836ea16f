"""Alignment: what holds the weighted offset of the experts, sum_i beta_i eps_i, near zero.

    scalar   mean_x (sum_i beta_i zs_i)^2        zs: the z-scores (ddof 1) of s_i, each expert's sum of offsets
    gram     mean_x beta' G beta                 G_ij = <eps_i, eps_j> / trace: the squared length of the offset itself
    off      0

`scalar` is what the authors' released code does, a surrogate; `gram` is what it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.learning.neulig.experts import Experts

__all__ = ["ALIGNMENTS", "Alignment", "AlignmentKind"]

AlignmentKind: TypeAlias = Literal["scalar", "gram", "off"]
ALIGNMENTS: tuple[AlignmentKind, ...] = get_args(AlignmentKind)


@dataclass(frozen=True, eq=False)
class Alignment:
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
    def of(cls, experts: Experts, kind: AlignmentKind = "scalar") -> Alignment:
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
