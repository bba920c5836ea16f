"""What rows say about corrupted pictures: `motion_blur@3` is a kind and a severity."""

from __future__ import annotations

import re

from smelt.errors import CorruptFile

__all__ = ["is_corruption", "kind_and_severity", "kind_text", "severities_text"]

_WRITTEN = re.compile(r"([^@]+)@(\d+)(:.+)?")
_NAMES = {"jpeg": "JPEG", "jpeg compression": "JPEG compression"}


def is_corruption(word: str) -> bool:
    """Whether a word names a corruption: `motion_blur@3`."""
    return _WRITTEN.fullmatch(word) is not None


def kind_and_severity(corruption: str) -> tuple[str, int]:
    """`motion_blur@3` → motion_blur, 3. Of another set of numbers it is another kind: `motion_blur:imagenet_c`."""
    found = _WRITTEN.fullmatch(corruption)
    if found is None:
        raise CorruptFile(
            f"the corruption of a row is {corruption!r}; it should be a kind and a severity, as in blur@3"
        )
    return found[1] + (found[3] or ""), int(found[2])


def kind_text(kind: str) -> str:
    """`motion_blur` → `Motion blur`, `jpeg:imagenet_c` → `JPEG (imagenet_c)`."""
    name, _, rest = kind.partition(":")
    words = name.replace("_", " ")
    words = _NAMES.get(words, words[:1].upper() + words[1:])
    return f"{words} ({rest.replace(':', ', ')})" if rest else words


def severities_text(severities: list[int]) -> str:
    """`severity 3`, `severities 1 to 5`, `severities 1, 3 and 5`."""
    if len(severities) == 1:
        return f"severity {severities[0]}"
    if len(severities) > 2 and severities == list(range(severities[0], severities[-1] + 1)):
        return f"severities {severities[0]} to {severities[-1]}"
    return f"severities {', '.join(map(str, severities[:-1]))} and {severities[-1]}"
