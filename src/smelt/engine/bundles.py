"""Bundles: neighbouring small tensors that one task works off together, so that what a task costs is shared by many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from smelt.engine.plan import Item

__all__ = ["bundles"]

_ELEMENTS = 1 << 18
_TENSORS = 256
"""Few enough that several threads have work, and that little is done again after a kill."""


def bundles(items: Iterable[Item], small: Callable[[Item], bool]) -> Iterator[list[Item]]:
    """The items in their order, small neighbours in one list, any other in a list of its own."""
    together: list[Item] = []
    elements = 0
    for item in items:
        alone = not small(item)
        if together and (alone or elements + item.info.count > _ELEMENTS or len(together) == _TENSORS):
            yield together
            together, elements = [], 0
        if alone:
            yield [item]
            continue
        together.append(item)
        elements += item.info.count
    if together:
        yield together
