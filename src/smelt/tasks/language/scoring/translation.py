"""Translation: chrF of one answer against its reference, from 0 to 1 (sacrebleu, character 6-grams, Popović 2015)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.errors import MissingExtra

__all__ = ["score"]


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """The score of one answer: `doc["answer"]` is the reference."""
    try:
        from sacrebleu import sentence_chrf
    except ImportError:
        raise MissingExtra("scoring translations needs sacrebleu: pip install 'smelt[llm]'") from None
    return {"chrf": sentence_chrf(results[0].strip(), [doc["answer"]]).score / 100}
