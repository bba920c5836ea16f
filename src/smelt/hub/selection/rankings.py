"""How well a predicted ranking of models agrees with the true one. Larger numbers are better.

Of {model: number}, as LOVM measures it:

top_overlap     the share of the true best five that are among the predicted best five
kendall_tau     on the models that are in both best fives; 0 where fewer than three are (as LOVM measures it)
signed_error    |mean of (predicted - true)| over the predicted best five: LOVM's "L1"
absolute_error  mean of |predicted - true| over all models

Correlations over all models are in smelt.ops.rank_correlation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from smelt.errors import RecipeError

__all__ = ["absolute_error", "kendall_tau", "signed_error", "top", "top_overlap"]


def top(values: Mapping[str, float], k: int = 5) -> tuple[str, ...]:
    """The k best, best first; among equal ones the first of the table."""
    from smelt.hub.selection.baselines import inb

    return inb(values, k)


def top_overlap(predicted: Mapping[str, float], true: Mapping[str, float], k: int = 5) -> float:
    """The share of the true best k that were predicted to be among them."""
    _check(predicted, true)
    best = top(true, k)
    return len(set(best) & set(top(predicted, k))) / len(best)


def kendall_tau(predicted: Mapping[str, float], true: Mapping[str, float], k: int = 5) -> float:
    """Pairs in the same order minus those in the opposite, as a share, over models in both best k; ties are neither."""
    _check(predicted, true)
    common = [name for name in top(true, k) if name in top(predicted, k)]
    if len(common) < 3:
        return 0.0
    pairs = list(combinations(common, 2))
    return sum(_sign(predicted[a] - predicted[b]) * _sign(true[a] - true[b]) for a, b in pairs) / len(pairs)


def signed_error(predicted: Mapping[str, float], true: Mapping[str, float], k: int = 5) -> float:
    """How far the predicted best k are off together: errors of both signs cancel."""
    _check(predicted, true)
    best = top(predicted, k)
    return abs(sum(predicted[name] - true[name] for name in best)) / len(best)


def absolute_error(predicted: Mapping[str, float], true: Mapping[str, float]) -> float:
    """How far a prediction is off in the mean."""
    _check(predicted, true)
    return sum(abs(predicted[name] - true[name]) for name in true) / len(true)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _check(predicted: Mapping[str, float], true: Mapping[str, float]) -> None:
    if not true or predicted.keys() != true.keys():
        odd = sorted(predicted.keys() ^ true.keys())
        raise RecipeError(f"a ranking is compared with one of the same models; only one side has {odd or 'any'}")
