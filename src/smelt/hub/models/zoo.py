"""Which models of the zoo make up its hub, how large they are, and what is known of the graph's captions."""

from __future__ import annotations

import math
from contextlib import closing

from smelt.errors import SmeltError
from smelt.hub.matching.known_vectors import KnownVectors
from smelt.models.zoo.catalogue import zoo_folders

__all__ = ["caption_vectors", "hub_models", "small_first"]


def caption_vectors(identity: str) -> KnownVectors | None:
    """The vectors of the captions of its graph's nodes by the embedder of this identity, where the zoo has them."""
    try:
        import smelt_zoo
    except ImportError:
        return None
    path = getattr(smelt_zoo, "caption_vectors", None)
    try:
        return KnownVectors.open(path(), identity) if path is not None else None
    except ModuleNotFoundError:  # the part of the zoo with the graph is not there
        return None


def hub_models() -> list[str]:
    """Their names, in the zoo's order; all models of a zoo that does not say."""
    folders = zoo_folders()
    import smelt_zoo

    named = smelt_zoo.hub_models() if hasattr(smelt_zoo, "hub_models") else folders
    return [str(name) for name in named]


def small_first(names: list[str]) -> list[str]:
    """By their numbers, as the headers of their files tell; a delta pack has as many as its base.

    One that cannot be read comes last: whoever adds it hears why.
    """
    from smelt.models.references import open_ref

    def numbers(name: str) -> float:
        try:
            with closing(open_ref(f"zoo:{name}")) as source:
                return sum(info.count for info in source.tensors.values())
        except SmeltError:
            return math.inf

    return sorted(names, key=numbers)
