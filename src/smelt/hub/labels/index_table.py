"""The indexes of many models, asked together: by name, in the hub's order, wherever their segments lie.

A selection asks every segment once for all of its models, some segments at a time, and hands on what each answers: the
whole table of models and nodes is never in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.labels.right_answers import counted_pictures, right_answers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.labels.index import Index
    from smelt.hub.labels.segment import Segment

__all__ = ["IndexTable", "checked_nodes"]


class IndexTable(Mapping[str, "Index"]):
    """Indexes by name. `placed` makes one from places in segments, without an object for each model."""

    def __init__(self, indexes: Mapping[str, Index]):
        segments = {id(index.segment): index.segment for index in indexes.values()}
        numbers = {known: number for number, known in enumerate(segments)}
        homes = [numbers[id(index.segment)] for index in indexes.values()]
        self._set(tuple(indexes), list(segments.values()), homes, [index.number for index in indexes.values()])

    @classmethod
    def placed(
        cls, names: Sequence[str], segments: Sequence[Segment], homes: Sequence[int], places: Sequence[int]
    ) -> IndexTable:
        """Model i is number places[i] of segments[homes[i]]."""
        found = cls.__new__(cls)
        found._set(tuple(names), segments, homes, places)
        return found

    def _set(
        self, names: tuple[str, ...], segments: Sequence[Segment], homes: Sequence[int], places: Sequence[int]
    ) -> None:
        self.names, self._segments = names, segments
        self._homes, self._places = np.array(homes, dtype=np.int64), np.array(places, dtype=np.int64)
        self._numbers: dict[str, int] | None = None

    def __getitem__(self, name: str) -> Index:
        from smelt.hub.labels.index import Index

        if self._numbers is None:
            self._numbers = {one: number for number, one in enumerate(self.names)}
        number = self._numbers[name]
        return Index(self._segments[self._homes[number]], int(self._places[number]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def checked(self, selected: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The selected nodes as numbers; refused if there is no index, or one of another graph."""
        if not self.names:
            raise RecipeError("there is no index to ask")
        first, *others = self._segments
        for one in others:
            if (
                one.key(0).graph != first.key(0).graph
                or one.graph_pictures != first.graph_pictures
                or not np.array_equal(one.numbered, first.numbered)
            ):
                raise RecipeError("the indexes are of different versions of the graph; label the models anew")
        return checked_nodes(selected, first.nodes)

    def counted(
        self, chosen: NDArray[np.int64], keeps: Sequence[NDArray[np.bool_] | None]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Which pictures of each node count, a bit each, and how many: by the first `keep` that leaves it some."""
        counted = counted_pictures(self._segments[0], chosen, keeps[0])
        for keep in keeps[1:]:
            empty = ~counted.any(axis=1)
            if empty.any():
                counted[empty] = counted_pictures(self._segments[0], chosen, keep)[empty]
        return counted, np.bitwise_count(counted).sum(axis=1, dtype=np.int64)

    def ask(
        self,
        chosen: NDArray[np.int64],
        counted: NDArray[np.uint64],
        put: Callable[[NDArray[np.int64], NDArray[np.uint32]], None],
        *,
        threads: int = 2,
    ) -> None:
        """`put` gets the numbers of some models, ascending, and their right answers [nodes, models]; in any thread."""
        order = np.argsort(self._homes, kind="stable")
        bounds = np.searchsorted(self._homes[order], np.arange(len(self._segments) + 1))
        groups = [order[first:last] for first, last in pairwise(bounds)]
        few = sum(len(group) > 0 for group in groups) < threads

        def work(number: int, pool: ThreadPoolExecutor | None) -> None:
            models, segment = groups[number], self._segments[number]
            if len(models):
                right = right_answers(segment, chosen, counted, pool, threads if pool is not None else 1)
                places = self._places[models]
                whole = len(places) == segment.models and bool((places == np.arange(len(places))).all())
                put(models, right if whole else right[:, places])

        with ThreadPoolExecutor(threads, "smelt-index") as pool:
            if few:
                for number in range(len(groups)):
                    work(number, pool)
            else:
                list(pool.map(lambda number: work(number, None), range(len(groups))))


def checked_nodes(selected: Sequence[int] | NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """A selection of nodes as numbers, in the order in which they were given."""
    chosen = np.asarray(selected, dtype=np.int64)
    if chosen.ndim != 1 or not len(chosen):
        raise RecipeError(f"a selection is a list of nodes, at least one; got {selected!r}")
    if chosen.min() < 0 or chosen.max() >= nodes:
        raise RecipeError(f"nodes are 0 to {nodes - 1}; the selection has {chosen.min()} to {chosen.max()}")
    if len(np.unique(chosen)) != len(chosen):
        raise RecipeError("the selection has a node twice")
    return chosen
