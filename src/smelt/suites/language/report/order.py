"""Does the order of the methods agree with the paper's? Rank correlations, and what chance would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.suites.language.published import mergebench
from smelt.suites.language.report.standing import Standing, ranked

__all__ = ["OrderAgreement", "agreement"]

_ORDERS = 20_000
"""Random orders that chance is estimated from, the same every time."""
_LEAST = 3


@dataclass(frozen=True)
class OrderAgreement:
    """1: the same order, 0: none, -1: the opposite."""

    methods: int
    kendall: float
    spearman: float
    chance: float
    """The share of random orders whose Kendall's tau is at least as far from 0."""


def agreement(every: Sequence[Standing]) -> OrderAgreement | None:
    """Our normalised performance beside the paper's overall (Table 8); None for fewer than three shared methods."""
    import numpy as np

    from smelt.hub.selection.rankings import kendall, spearman

    overall = mergebench().multitask.overall
    shared = {one.entry: one.skill.accuracy for one in reversed(ranked(every)) if one.skill and one.entry in overall}
    if len(shared) < _LEAST:
        return None
    ours, theirs = np.array(list(shared.values())), np.array([overall[entry] for entry in shared])
    tau, rho = kendall(ours, theirs), spearman(ours, theirs)
    if tau is None or rho is None:
        return None
    signs = [np.sign(np.subtract.outer(values, values)) for values in (ours, theirs)]
    norm = float(np.sqrt(np.sum(signs[0] ** 2) * np.sum(signs[1] ** 2)))
    generator = np.random.default_rng(0)
    orders = generator.permuted(np.tile(np.arange(len(shared)), (_ORDERS, 1)), axis=1)
    shuffled = signs[1][orders[:, :, None], orders[:, None, :]]
    taus = np.einsum("ij,kij->k", signs[0], shuffled) / norm
    return OrderAgreement(len(shared), tau, rho, float(np.mean(np.abs(taus) >= abs(tau) - 1e-9)))
