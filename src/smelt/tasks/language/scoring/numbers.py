"""Maths: is the last number of the answer the right one?

The number is what follows the last `Answer:` or `####`, and where the answer has neither, its last number. Fractions
are compared as written: where `3/4` is right, `6/8` is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["final_number", "score"]

_NUMBER = re.compile(r"(?:(?<!\w)-\s?)?\$?\d[\d,]*(?:\.\d+)?(?:\s?/\s?\d+)?")
_MARK = re.compile(r"answer(?:\s+is)?\s*[:=]|answer is|####", re.IGNORECASE)


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 where the answer ends on the number that `doc["answer"]` ends on, else 0."""
    given = final_number(results[0])
    return {"exact_match": float(given is not None and given == final_number(doc["answer"]))}


def final_number(text: str) -> str | None:
    """The number that a text ends on, in one way of writing it; None where there is none.

    >>> final_number("3 * 4 = 12\\nAnswer: 12.0")
    '12'
    >>> final_number("That makes $1,200 in all.")
    '1200'
    """
    *_, told = _MARK.split(text)
    found = _NUMBER.findall(told) if told == text else _NUMBER.findall(told)[:1]
    if not found:  # nothing after the mark
        found = _NUMBER.findall(text)
    return "/".join(_plain(part) for part in found[-1].split("/")) if found else None


def _plain(number: str) -> str:
    """By its digits alone: a model that does not stop writes numbers which no arithmetic takes."""
    text = re.sub(r"[\s$,]", "", number)
    whole, _, rest = text.removeprefix("-").partition(".")
    value = ".".join(filter(None, [whole.lstrip("0") or "0", rest.rstrip("0")]))
    return f"-{value}" if text.startswith("-") and value != "0" else value
