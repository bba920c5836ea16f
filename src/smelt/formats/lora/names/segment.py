"""Where a module that an adapter names lies in its base: whole, or some rows of one or several tensors.

Query, key and value are one tensor in one layout and three in another. `Segment` says which rows of a module are which
rows of a tensor; a module's segments lie one after the other and cover it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Aliases", "Rows", "Segment", "joined", "parts_of", "turned_halves", "whole"]


@dataclass(frozen=True, slots=True)
class Segment:
    key: str
    """The tensor in the base."""
    at: int
    """The first of its rows that are meant,"""
    start: int
    """which is this row of the module."""
    count: int


Aliases: TypeAlias = "dict[str, tuple[Segment, ...]]"
"""Modules by another name."""
Rows: TypeAlias = "Mapping[str, Segment]"
"""Modules of a base by their names within their component, each as the one segment that it is."""


def whole(segment: Segment) -> tuple[Segment, ...]:
    return (segment,)


def joined(parts: Sequence[Segment]) -> tuple[Segment, ...]:
    """One module that the base stores as several."""
    start, found = 0, []
    for part in parts:
        found.append(Segment(part.key, part.at, start, part.count))
        start += part.count
    return tuple(found)


def parts_of(stored: Segment, counts: Sequence[int]) -> list[tuple[Segment, ...]]:
    """Several modules that the base stores as one, by their numbers of rows."""
    at = stored.at
    found: list[tuple[Segment, ...]] = []
    for count in counts:
        found.append(whole(Segment(stored.key, at, 0, count)))
        at += count
    return found


def turned_halves(stored: Segment) -> tuple[Segment, ...]:
    """A module whose halves (shift and scale) the base stores in the other order."""
    half = stored.count // 2
    return Segment(stored.key, stored.at + half, 0, half), Segment(stored.key, stored.at, half, half)
