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
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.hub.labels.index_table import IndexTable, checked_nodes
from smelt.hub.labels.segment import Entries, Segment, save_segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.label import Label, LabelKey

__all__ = ["Index", "argmax_counts", "right_of_many"]


class Index:
    """Which nodes beat the true node, for every picture of every node. `build`, `extended` and `open` make one.

    It is one model of a segment, which holds it alone or with others.
    """

    def __init__(self, segment: Segment, number: int = 0):
        self.segment, self.number = segment, number

    def __repr__(self) -> str:
        return f"Index({self.nodes} nodes, one of {self.segment.models})"

    @property
    def key(self) -> LabelKey:
        """The key of the label that it follows from."""
        return self.segment.key(self.number)

    @property
    def nodes(self) -> int:
        return self.segment.nodes

    @classmethod
    def build(cls, label: Label, graph: SemanticGraph) -> Index:
        """From a label: every picture of every node is scored with every text."""
        from smelt.hub.labels.index_build import built

        return cls(built(label, graph, None))

    def extended(self, label: Label, graph: SemanticGraph) -> Index:
        """The index on a graph to which nodes were added: equal to `build`, but only what is new is scored."""
        from smelt.hub.labels.index_build import built

        return Index(built(label, graph, (self.segment, self.number)))

    def save(self, path: str | Path) -> Path:
        """As the one index of a file, whole or not at all."""
        one = self.segment
        nodes = (self._alone(one.of_node(node)) for node in range(one.nodes))
        standing = one.standing[self.number : self.number + 1]
        return save_segment(Path(path), [self.key], standing, one.graph_pictures, one.numbered, one.pictures, nodes)

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """The first index of a file, memory-mapped: only the lists that are asked for are read."""
        return cls(Segment.open(Path(path)))

    @property
    def standing(self) -> NDArray[np.uint32]:
        """Right answers on each leaf of the graph, where it chooses among all leaves; then those on each style."""
        found: NDArray[np.uint32] = self.segment.standing[self.number]
        return found

    def verify(self) -> None:
        """Compare a file with the digest that was written into it."""
        self.segment.verify()

    def right(
        self, selected: Sequence[int] | NDArray[np.int64], keep: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Right answers and pictures of each selected node, where the model chooses among the selected ones.

        `keep` tells for every picture of the graph whether it counts.
        """
        right, total = right_of_many([self], selected, keep)
        return right[0], total

    def recall(
        self, selected: Sequence[int] | NDArray[np.int64], keep: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """The share of right answers on each selected node; 0 where it has no picture that counts."""
        right, pictures = self.right(selected, keep)
        return right / np.maximum(pictures, 1)

    def _alone(self, found: Entries) -> Entries:
        mine = found.models == self.number
        return Entries(found.beaters[mine], np.zeros(int(mine.sum()), dtype=np.int64), found.masks[mine])


def right_of_many(
    indexes: Sequence[Index],
    selected: Sequence[int] | NDArray[np.int64],
    keep: NDArray[np.bool_] | None = None,
    *,
    threads: int = 2,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right answers [models, nodes] and pictures [nodes] of several models on one graph, several at a time."""
    asked = IndexTable({str(number): index for number, index in enumerate(indexes)})
    chosen = asked.checked(selected)
    counted, total = asked.counted(chosen, [keep])
    right = np.zeros((len(indexes), len(chosen)), dtype=np.int64)

    def put(numbers: NDArray[np.int64], found: NDArray[np.uint32]) -> None:
        right[numbers] = found.T

    asked.ask(chosen, counted, put, threads=threads)
    return right, total


def argmax_counts(
    label: Label,
    graph: SemanticGraph,
    selected: Sequence[int] | NDArray[np.int64],
    keep: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """How often a picture of each selected node (row) is answered with each of them (column), from the label."""
    chosen = checked_nodes(selected, len(graph.nodes))
    order = np.argsort(chosen)  # ties go to the lower number, which arg max gives where numbers ascend
    counts = np.zeros((len(chosen), len(chosen)), dtype=np.int64)
    for row, node in enumerate(chosen.tolist()):
        pictures = np.array(graph.nodes[node].pictures, dtype=np.int64)
        if keep is not None:
            pictures = pictures[keep[pictures]]
        answers = order[label.scores(chosen[order], pictures).argmax(axis=1)]
        counts[row] = np.bincount(answers, minlength=len(chosen))
    return counts
