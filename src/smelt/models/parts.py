"""Parts of models: REF#PART is one part of a model as a model of its own.

    VLM#language        the language model of a model that sees and reads, as a model of texts alone

A part is a function from an open model to another, registered by its word (`parts["mine"] = ...`), also by a plug-in:
a module that an entry point of the group `smelt.references` names.
"""

from __future__ import annotations

import re
from typing import Protocol

from smelt.errors import RecipeError, unknown
from smelt.formats.source import Source
from smelt.registry import Registry

__all__ = ["PartOf", "open_part", "parts", "split_part"]

_WORD = re.compile(r"\w[\w.-]*")


class PartOf(Protocol):
    """How a part of a model is opened."""

    def __call__(self, source: Source) -> Source:
        """The part, which closes the whole when it is closed; RecipeError where the model has none."""


parts: Registry[PartOf] = Registry(
    "smelt.references",
    own=lambda: {"language": "smelt.models.language_part"},
    home=lambda part: getattr(part, "__module__", ""),
)
"""Every part by the word behind the `#`."""


def split_part(ref: str) -> tuple[str, str] | None:
    """REF and PART of a reference that is no path; None for one without. An adapter behind a part stands over it."""
    whole, mark, word = ref.rpartition("#")
    return (whole, word) if mark and whole and _WORD.fullmatch(word) else None


def open_part(source: Source, word: str) -> Source:
    """The part of an open model that a word means. If there is none, the model is closed."""
    try:
        if word not in parts:
            raise RecipeError(f"{source.label}#{word}: {unknown('part of a model', word, parts)}")
        return parts[word](source)
    except BaseException:
        source.close()
        raise
