"""Bundles: neighbouring small tensors that one task works off together, so that what a task costs is shared by many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.engine.plan.plan import Item

__all__ = ["bundles"]

_MANY = 512
"""Small tensors from which on it is worth it: fewer take a tenth of a second."""
_ELEMENTS, _TENSORS = 1 << 18, 256
"""At most in a bundle: few enough that several threads have work, and that little is done again after a kill."""


def bundles(items: Sequence[Item], small: Callable[[Item], bool]) -> list[list[Item]]:
    """The items in their order: small neighbours in one list, any other in a list of its own."""
    found = [small(item) for item in items]
    if sum(found) < _MANY:
        return [[item] for item in items]
    out: list[list[Item]] = []
    elements = 0
    for number, item in enumerate(items):
        elements += item.info.count
        fits = elements <= _ELEMENTS and out and len(out[-1]) < _TENSORS
        if fits and number and found[number] and found[number - 1]:
            out[-1].append(item)
        else:
            out.append([item])
            elements = item.info.count
    return out
