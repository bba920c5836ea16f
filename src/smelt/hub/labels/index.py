"""The index of a model: the exact answer to "how does it do on these nodes, if it must choose among these alone?"

For every node v it holds the nodes that beat v on some of v's pictures, and on which: u beats v on picture x if the
model scores u higher, or equal and u has the lower number. A picture of v is answered rightly among any selection
exactly if nothing selected beats v on it. So an answer takes no floats and no scores: look up the lists of the selected
nodes, keep the entries that are selected, join their pictures. Lists are short for models that know the graph.

In: a label and its graph, or a file. Out: right answers and pictures of every selected node. The label itself gives
the same by arg max (`argmax_counts`), and what an index cannot tell: which node was answered instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile, RecipeError
from smelt.hub.labels.index_file import Columns, open_columns, save_columns, verify_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.label import Label, LabelKey

__all__ = ["Index", "argmax_counts", "right_of_many"]


class Index:
    """Which nodes beat the true node, for every picture of every node. `build`, `extended` and `open` make one."""

    def __init__(self, columns: Columns, path: Path | None = None):
        self._columns, self._path = columns, path
        self.remedy = "make it anew from the label"
        """What to do where the file turns out to be damaged."""

    def __repr__(self) -> str:
        return f"Index({self.nodes} nodes, {self.entries} entries)"

    @property
    def key(self) -> LabelKey:
        """The key of the label that it follows from."""
        return self._columns.key

    @property
    def nodes(self) -> int:
        return len(self._columns.offsets) - 1

    @property
    def entries(self) -> int:
        """The length of all lists together."""
        return len(self._columns.ids)

    @classmethod
    def build(cls, label: Label, graph: SemanticGraph) -> Index:
        """From a label: every picture of every node is scored with every text."""
        from smelt.hub.labels.index_build import built

        return cls(built(label, graph, None))

    def extended(self, label: Label, graph: SemanticGraph) -> Index:
        """The index on a graph to which nodes were added: equal to `build`, but only what is new is scored."""
        from smelt.hub.labels.index_build import built

        return Index(built(label, graph, self._columns))

    def save(self, path: str | Path) -> Path:
        """As one file, whole or not at all."""
        return save_columns(self._columns, Path(path))

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """An index on disk, memory-mapped: only the lists that are asked for are read."""
        return cls(open_columns(Path(path)), Path(path))

    def verify(self) -> None:
        """Compare a file with the digest that was written into it."""
        if self._path is not None:
            verify_columns(self._path)

    def right(
        self, selected: Sequence[int] | NDArray[np.int64], keep: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Right answers and pictures of each selected node, where the model chooses among the selected ones.

        `keep` tells for every picture of the graph whether it counts.
        """
        chosen = _checked(selected, self.nodes)
        return self._right(chosen, self.counted(chosen, keep))

    def recall(
        self, selected: Sequence[int] | NDArray[np.int64], keep: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """The share of right answers on each selected node; 0 where it has no picture that counts."""
        right, pictures = self.right(selected, keep)
        return right / np.maximum(pictures, 1)

    def counted(self, chosen: NDArray[np.int64], keep: NDArray[np.bool_] | None = None) -> NDArray[np.uint64]:
        """A bit for each picture of each node that counts, [nodes, words]; the same for all models on a graph."""
        columns = self._columns
        starts, stops = self._span(columns.numbered, chosen, len(columns.pictures))
        sizes = stops - starts
        flags = np.arange(8 * columns.masks.shape[1]) < sizes[:, None]
        if keep is not None:
            if len(keep) != columns.graph_pictures:
                raise RecipeError(
                    f"keep has {len(keep)} entries, but the graph of the index has {columns.graph_pictures} pictures"
                )
            try:
                flags[flags] = np.asarray(keep, dtype=bool)[_joined(columns.pictures, starts, stops)]
            except (IndexError, ValueError):
                raise self._damaged("the pictures of a node are not in the graph") from None
        return _words(np.packbits(flags, axis=1, bitorder="little"))

    def _right(
        self, chosen: NDArray[np.int64], counted: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        columns = self._columns
        starts, stops = self._span(columns.offsets, chosen, len(columns.ids))
        among = np.zeros(self.nodes, dtype=bool)
        among[chosen] = True
        try:
            hits = np.flatnonzero(among[_joined(columns.ids, starts, stops)])
        except IndexError:
            raise self._damaged("a list holds a node that is not in the graph") from None
        ends = np.cumsum(stops - starts)
        before = np.searchsorted(hits, ends)
        counts = np.diff(before, prepend=0)
        places = hits + np.repeat(stops - ends, counts)
        rows = np.flatnonzero(counts)
        wrong = np.zeros_like(counted)
        if len(rows):
            bits = _words(columns.masks[places])
            wrong[rows] = np.bitwise_or.reduceat(bits, (before - counts)[rows], axis=0)
        total = np.bitwise_count(counted).sum(axis=1, dtype=np.int64)
        return total - np.bitwise_count(wrong & counted).sum(axis=1, dtype=np.int64), total

    def _span(
        self, offsets: NDArray[Any], chosen: NDArray[np.int64], most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the lists of the chosen nodes begin and end."""
        starts, stops = offsets[chosen].astype(np.int64), offsets[chosen + 1].astype(np.int64)
        if (starts > stops).any() or stops.max() > most or starts.min() < 0:
            raise self._damaged("its lists lie outside of it")
        return starts, stops

    def _damaged(self, what: str) -> CorruptFile:
        return CorruptFile(f"{self._path or 'the index'}: is damaged ({what}); {self.remedy}")


def right_of_many(
    indexes: Sequence[Index],
    selected: Sequence[int] | NDArray[np.int64],
    keep: NDArray[np.bool_] | None = None,
    *,
    threads: int = 2,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right answers [models, nodes] and pictures [nodes] of several models on one graph, several at a time."""
    if not indexes:
        raise RecipeError("there is no index to ask")
    if len({index.key.graph for index in indexes}) > 1:
        raise RecipeError("the indexes are of different versions of the graph; label the models anew")
    chosen = _checked(selected, indexes[0].nodes)
    counted = indexes[0].counted(chosen, keep)
    right = np.zeros((len(indexes), len(chosen)), dtype=np.int64)

    def work(part: range) -> None:
        for number in part:
            right[number] = indexes[number]._right(chosen, counted)[0]

    with ThreadPoolExecutor(threads, "smelt-index") as pool:
        list(pool.map(work, [range(first, len(indexes), threads) for first in range(threads)]))
    return right, np.bitwise_count(counted).sum(axis=1, dtype=np.int64)


def argmax_counts(
    label: Label,
    graph: SemanticGraph,
    selected: Sequence[int] | NDArray[np.int64],
    keep: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """How often a picture of each selected node (row) is answered with each of them (column), from the label."""
    chosen = _checked(selected, len(graph.nodes))
    order = np.argsort(chosen)  # ties go to the lower number, which arg max gives where numbers ascend
    counts = np.zeros((len(chosen), len(chosen)), dtype=np.int64)
    for row, node in enumerate(chosen.tolist()):
        pictures = np.array(graph.nodes[node].pictures, dtype=np.int64)
        if keep is not None:
            pictures = pictures[keep[pictures]]
        answers = order[label.scores(chosen[order], pictures).argmax(axis=1)]
        counts[row] = np.bincount(answers, minlength=len(chosen))
    return counts


def _checked(selected: Sequence[int] | NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    chosen = np.asarray(selected, dtype=np.int64)
    if chosen.ndim != 1 or not len(chosen):
        raise RecipeError(f"a selection is a list of nodes, at least one; got {selected!r}")
    if chosen.min() < 0 or chosen.max() >= nodes:
        raise RecipeError(f"nodes are 0 to {nodes - 1}; the selection has {chosen.min()} to {chosen.max()}")
    if len(np.unique(chosen)) != len(chosen):
        raise RecipeError("the selection has a node twice")
    return chosen


def _joined(column: NDArray[Any], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[Any]:
    return np.concatenate([column[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])


def _words(masks: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Bytes [n, width] as words [n, width / 8 rounded up]."""
    width = masks.shape[1]
    whole = np.zeros((len(masks), -(-width // 8) * 8), dtype=np.uint8)
    whole[:, :width] = masks
    return whole.view("<u8")
