"""Selection: which models to use for each class of a task, from their labels alone.

p[m, v] = share of the pictures of v whose best node among V_sel is v                     (5)
p[m, y] = sum_v p[m, v] Z[v, y]                                                            (6)
r[m, y] = alpha p[m, y] + (1 - alpha) / C  sum_y' p[m, y']                                 (7)
F_y     = the k models with the largest r[., y]; ties go to the model that stands first

Tan et al. 2025 (Model Label Learning), section 4.2. The paper calls (5) a precision; it is a recall, which is the
default here. The released code's readings are options: `metric="f1"` (with the false negatives where they belong),
`overall="others"` (the mean over the other classes). `normalise="column"` makes every class's weights sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from smelt.display.shown import Shown
from smelt.errors import RecipeError, unknown
from smelt.hub.labels.metrics import Metric, ask_models
from smelt.hub.matching.match import Match
from smelt.hub.selection.best import BestModels, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.display.blocks import Block
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label
    from smelt.hub.labels.metrics import PictureChoice
    from smelt.hub.selection.explain import Explanation

__all__ = [
    "Metric",
    "NodeWords",
    "Selection",
    "TaskWords",
    "choose",
    "class_precision",
    "reuse_metric",
    "select_models",
]


@dataclass(frozen=True)
class TaskWords:
    """A task as its owner describes it: no pictures."""

    classes: tuple[str, ...]
    domain: str = "natural picture"
    task: str = "image classification"


@dataclass(frozen=True)
class NodeWords:
    """A node as an explanation shows it."""

    number: int
    id: str
    name: str


@dataclass(frozen=True, eq=False)
class Selection(Shown):
    """Which models were chosen for every class, with all the numbers that it follows from."""

    task: TaskWords
    models: tuple[str, ...]
    """The models whose numbers are here, in the hub's order: all that were asked, or of more than a thousand those that
    are chosen, the next best of every class, and the best on the whole task (see best.py)."""
    match: Match
    nodes: tuple[NodeWords, ...]
    """The kept nodes, in the order of `match.selected`."""
    recall: NDArray[np.float64]
    """(5) [models, kept nodes]: recall, or what `metric` says."""
    precision: NDArray[np.float64]
    """(6) [models, classes]."""
    reuse: NDArray[np.float64]
    """(7) [models, classes]."""
    chosen: tuple[tuple[int, ...], ...]
    """For every class the numbers of its models, best first."""
    k: int
    alpha: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: int = 0
    """How many models were asked."""

    @property
    def chosen_names(self) -> tuple[tuple[str, ...], ...]:
        """For every class the names of its models, best first."""
        return tuple(tuple(self.models[number] for number in one) for one in self.chosen)

    @property
    def used(self) -> tuple[str, ...]:
        """The models that are chosen for some class, in the hub's order."""
        numbers = {number for one in self.chosen for number in one}
        return tuple(name for number, name in enumerate(self.models) if number in numbers)

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """The models by their mean precision over the classes, best first; the first hundred are so among all asked."""
        overall = self.precision.mean(axis=1)
        return [(self.models[number], float(overall[number])) for number in best_first(overall)]

    def nodes_of(self, number: int) -> list[str]:
        """The names of the nodes that a class matched, nearest first."""
        names = {node.number: node.name for node in self.nodes}
        return [names[node] for node, _ in self.match.nearest[number]]

    def explain(self, name: str) -> Explanation:
        """Why a class got its models: the nodes it matched, and how the models and the runner-up do on them."""
        from smelt.hub.selection.explain import explain

        if name not in self.task.classes:
            raise RecipeError(unknown("class", name, self.task.classes))
        return explain(self, name)

    def shown(self) -> list[Block]:
        from smelt.hub.selection.explain import selection_blocks

        return selection_blocks(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain lists, numbers and words (JSON)."""
        return {
            "task": {"classes": list(self.task.classes), "domain": self.task.domain, "task": self.task.task},
            "models": list(self.models),
            "nodes": [{"number": node.number, "id": node.id, "name": node.name} for node in self.nodes],
            "nearest": [[[node, similarity] for node, similarity in one] for one in self.match.nearest],
            "transfer": self.match.transfer.tolist(),
            "recall": self.recall.tolist(),
            "precision": self.precision.tolist(),
            "reuse": self.reuse.tolist(),
            "chosen": [list(one) for one in self.chosen],
            "k": self.k,
            "alpha": self.alpha,
            "settings": dict(self.settings),
            "asked": self.asked,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Selection:
        """What `as_dict` gave, as a Selection again."""
        words = content["task"]
        nodes = tuple(NodeWords(node["number"], node["id"], node["name"]) for node in content["nodes"])
        nearest = tuple(tuple((int(node), float(near)) for node, near in one) for one in content["nearest"])
        selected = np.array([node.number for node in nodes], dtype=np.int64)
        return cls(
            TaskWords(tuple(words["classes"]), words["domain"], words["task"]),
            tuple(content["models"]),
            Match(selected, np.array(content["transfer"], dtype=np.float64), nearest),
            nodes,
            np.array(content["recall"], dtype=np.float64),
            np.array(content["precision"], dtype=np.float64),
            np.array(content["reuse"], dtype=np.float64),
            tuple(tuple(one) for one in content["chosen"]),
            int(content["k"]),
            float(content["alpha"]),
            dict(content["settings"]),
            int(content.get("asked", len(content["models"]))),
        )


def class_precision(
    recall: NDArray[np.float64], transfer: NDArray[np.float64], *, normalise: Literal["none", "column"] = "none"
) -> NDArray[np.float64]:
    """(6): what each model should achieve on each class [models, classes]; `column` divides Z by its column sums."""
    if normalise not in ("none", "column"):
        raise RecipeError(f"normalise: the transfer matrix is taken as it is (none) or by column, got {normalise!r}")
    if recall.shape[1] != len(transfer):
        raise RecipeError(f"recall is of {recall.shape[1]} nodes, but the transfer matrix of {len(transfer)}")
    if normalise == "column":
        sums = transfer.sum(axis=0)
        transfer = transfer / np.where(sums > 0, sums, 1.0)
    out = np.zeros((transfer.shape[1], len(recall)))
    # Node by node over all models at once: a matrix product may add equal rows in different orders, and copies of one
    # model would no longer tie.
    for number, column in enumerate(transfer.T):
        for node in np.flatnonzero(column):
            out[number] += recall[:, node] * column[node]
    return np.ascontiguousarray(out.T)


def reuse_metric(
    precision: NDArray[np.float64], *, alpha: float = 0.7, overall: Literal["all", "others"] = "all"
) -> NDArray[np.float64]:
    """(7): a model's precision on the class, balanced with that on all classes (or on the others)."""
    if not 0 <= alpha <= 1:
        raise RecipeError(f"alpha balances a class (1) and the whole task (0), so it is from 0 to 1; got {alpha}")
    if overall not in ("all", "others"):
        raise RecipeError(f"overall: the mean is over all classes or over the others, got {overall!r}")
    total, classes = precision.sum(axis=1, keepdims=True), precision.shape[1]
    one = overall == "all" or classes == 1
    mean: NDArray[np.float64] = total / classes if one else (total - precision) / (classes - 1)
    return alpha * precision + (1 - alpha) * mean


def choose(reuse: NDArray[np.float64], k: int) -> list[tuple[int, ...]]:
    """For every class the numbers of the k best models, best first; a hub with fewer models gives all of them."""
    if k < 1:
        raise RecipeError(f"k is how many models a class gets, at least 1; got {k}")
    return [tuple(int(number) for number in best_first(column)[:k]) for column in reuse.T]


def best_first(values: NDArray[np.float64]) -> list[int]:
    """Numbers of the values, largest first; among equal ones the lower number first."""
    return [int(number) for number in np.argsort(-values, kind="stable")]


def select_models(
    indexes: Mapping[str, Index],
    match: Match,
    task: TaskWords,
    *,
    graph: SemanticGraph | None = None,
    k: int = 1,
    alpha: float = 0.7,
    metric: Metric = "recall",
    normalise: Literal["none", "column"] = "none",
    overall: Literal["all", "others"] = "all",
    pictures: PictureChoice = "all",
    style: str | None = None,
    labels: Mapping[str, Label] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Selection:
    """Choose the k models of every class. `graph` gives the nodes their names in explanations.

    `metric` "precision" and "f1" need every model's answers, so the `labels` and the `graph`. `pictures="domain"`
    counts only the pictures of the given `style` (see `domain_style`), where a node has some, "unseen" those that no
    model was trained on, "domain-unseen" those of both kinds: extensions of ours (see metrics.py).
    `settings` are words that the selection should remember (embedder, captions).
    """
    if not indexes:
        raise RecipeError("there is no labelled model to select from; add one first")
    if len(task.classes) != match.transfer.shape[1]:
        raise RecipeError(f"the task has {len(task.classes)} classes, but the match {match.transfer.shape[1]}")
    if not 0 <= alpha <= 1:
        raise RecipeError(f"alpha balances a class (1) and the whole task (0), so it is from 0 to 1; got {alpha}")
    if k < 1:
        raise RecipeError(f"k is how many models a class gets, at least 1; got {k}")
    best = BestModels(k, len(indexes))

    def add(numbers: NDArray[np.int64], recall: NDArray[np.float64]) -> None:
        precision = class_precision(recall, match.transfer, normalise=normalise)
        best.add(Rows(numbers, recall, precision, reuse_metric(precision, alpha=alpha, overall=overall)))

    ask_models(indexes, match.selected, add, metric=metric, graph=graph, pictures=pictures, style=style, labels=labels)
    found, names = best.rows(), tuple(indexes)
    words: dict[str, Any] = {"metric": metric, "normalise": normalise, "overall": overall, "pictures": pictures}
    if pictures in ("domain", "domain-unseen"):
        words["style"] = str(style)
    return Selection(
        task,
        tuple(names[number] for number in found.numbers),
        match,
        node_words(match.selected, graph),
        found.recall,
        found.precision,
        found.reuse,
        tuple(choose(found.reuse, k)),
        k,
        alpha,
        {**words, **(settings or {})},
        len(indexes),
    )


def node_words(selected: Sequence[int] | NDArray[np.int64], graph: SemanticGraph | None) -> tuple[NodeWords, ...]:
    """The nodes' ids and names; their numbers where there is no graph."""
    if graph is None:
        return tuple(NodeWords(int(number), str(int(number)), f"node {int(number)}") for number in selected)
    return tuple(
        NodeWords(int(number), graph.nodes[int(number)].id, graph.nodes[int(number)].name) for number in selected
    )
