"""Which models of the zoo make up its hub, and how large they are."""

from __future__ import annotations

import math
from contextlib import closing

from smelt.errors import SmeltError
from smelt.pool.zoo import zoo_folders

__all__ = ["hub_models", "small_first"]


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
    from smelt.pool.refs import open_ref

    def numbers(name: str) -> float:
        try:
            with closing(open_ref(f"zoo:{name}")) as source:
                return sum(info.count for info in source.tensors.values())
        except SmeltError:
            return math.inf

    return sorted(names, key=numbers)
