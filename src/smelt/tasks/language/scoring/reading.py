"""Reading comprehension as SQuAD scores it (Rajpurkar et al. 2018): the same words, or how many of them are shared.

Case, punctuation, articles and spaces do not count. Of several right answers the best fit does. A question that the
text does not answer is right where the reply is empty by these rules. Each is a mean over examples, and the same number
as SQuAD 2.0's own script gives for all of them.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["compute_exact", "compute_f1", "score", "words_of"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """`exact` and `f1` of one reply; `doc["answers"]["text"]` are the right answers, none where there is none."""
    said = words_of(results[0])
    right = [words for words in map(words_of, doc["answers"]["text"]) if words] or [[]]
    return {"exact": float(said in right), "f1": max(_f1(said, words) for words in right)}


def compute_exact(right: str, said: str) -> int:
    """Whether both have the same words; the name is that of transformers' older function, which harness tasks call."""
    return int(words_of(right) == words_of(said))


def compute_f1(right: str, said: str) -> float:
    """How many words they share; as above."""
    return _f1(words_of(said), words_of(right))


def words_of(text: str) -> list[str]:
    """The words that count.

    >>> words_of("The Eiffel Tower, in Paris.")
    ['eiffel', 'tower', 'in', 'paris']
    """
    plain = text.lower().translate(_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _f1(said: list[str], right: list[str]) -> float:
    if not said or not right:
        return float(said == right)
    common = sum((Counter(said) & Counter(right)).values())
    return 2 * common / (len(said) + len(right))
