"""How good a ranking is: nDCG, reciprocal rank and recall of one query, each at a depth k.

    DCG@k  = sum over ranks i = 1..k of relevance_i / log2(i + 1)
    nDCG@k = DCG@k / DCG@k of the best order
    RR@k   = 1 / rank of the first relevant document within k, else 0; its mean over queries is MRR@k
    recall@k = relevant documents within k / all relevant ones

As trec_eval has them (linear gain); where relevance is 0 or 1, as sentence-transformers has them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

__all__ = ["METRICS", "depth_of", "query_score"]


def _ndcg(ranked: Sequence[float], relevant: Sequence[float], k: int) -> float:
    return _dcg(ranked[:k]) / _dcg(sorted(relevant, reverse=True)[:k])


def _reciprocal_rank(ranked: Sequence[float], relevant: Sequence[float], k: int) -> float:
    return next((1 / rank for rank, one in enumerate(ranked[:k], 1) if one > 0), 0.0)


def _recall(ranked: Sequence[float], relevant: Sequence[float], k: int) -> float:
    return sum(one > 0 for one in ranked[:k]) / len(relevant)


METRICS: Mapping[str, Callable[[Sequence[float], Sequence[float], int], float]] = {
    "ndcg": _ndcg,
    "mrr": _reciprocal_rank,
    "recall": _recall,
}
_NAME = re.compile(rf"^({'|'.join(METRICS)})@([1-9]\d{{0,3}})$")


def depth_of(metric: str) -> int:
    """The k of `ndcg@10`; ValueError where it is no metric."""
    found = _NAME.match(metric)
    if not found:
        raise ValueError(f"{metric!r} is no metric of rankings; there are {', '.join(f'{one}@K' for one in METRICS)}")
    return int(found[2])


def query_score(metric: str, ranked: Sequence[str], relevant: Mapping[str, float]) -> float:
    """The score of one query, 0 to 1: document ids, the best first, and the relevance of those that are relevant."""
    measure = METRICS[metric.partition("@")[0]]
    return measure([relevant.get(one, 0.0) for one in ranked], [*relevant.values()], depth_of(metric))


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
