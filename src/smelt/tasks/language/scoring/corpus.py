"""Scores of all replies together, which are no mean over examples: BLEU and chrF as sacrebleu computes them.

A task's scoring gives a pair (reference, reply) for each example under the name of such a metric. Intervals are
sacrebleu's bootstrap over examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.errors import MissingExtra

__all__ = ["CORPUS_METRICS", "CorpusScore", "conala", "corpus_score", "is_pair"]

CORPUS_METRICS = ("bleu", "chrf")
_DRAWS = 1000


@dataclass(frozen=True)
class CorpusScore:
    """From 0 to 1, with its 95 % interval."""

    score: float
    low: float
    high: float


def is_pair(value: Any) -> bool:
    """Whether this is what such a scoring gives for one example."""
    return isinstance(value, list | tuple) and len(value) == 2


def corpus_score(metric: str, pairs: Sequence[Sequence[Any]]) -> CorpusScore:
    """The score of pairs (reference, reply). A reference may be a list of one."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise MissingExtra("scoring translations needs sacrebleu: pip install 'smelt[llm]'") from None
    measure = {"bleu": BLEU, "chrf": CHRF}[metric]()
    references = [_text(reference) for reference, _ in pairs]
    replies = [_text(reply) for _, reply in pairs]
    found = measure.corpus_score(replies, [references], n_bootstrap=_DRAWS if len(pairs) > 1 else 1)
    spread = float(getattr(found, "_ci", 0.0) or 0.0) if len(pairs) > 1 else 100.0
    low, high = max(0.0, found.score - spread), min(100.0, found.score + spread)
    return CorpusScore(min(1.0, found.score / 100), low / 100, high / 100)


def conala(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, tuple[str, str]]:
    """CoNaLa: the line of code that was asked for, beside the one that was written."""
    lines = results[0].strip().splitlines() or [""]
    return {"bleu": (str(doc["snippet"]), lines[0].strip())}


def _text(value: Any) -> str:
    return str(value[0] if isinstance(value, list | tuple) else value)
