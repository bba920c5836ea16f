"""Explanations: why a class got its models, as data first and then as tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from smelt.display.blocks import Block, Cell, Lines, Table
from smelt.display.shown import Shown

if TYPE_CHECKING:
    from smelt.hub.selection.select import Selection

__all__ = ["Explanation", "ModelEvidence", "NodeEvidence", "explain", "selection_blocks"]

_LIST = 12
"""Classes and models that a terminal gets to see before the rest is only counted."""


@dataclass(frozen=True)
class NodeEvidence:
    """A node that the class matched, and how the models do on it."""

    id: str
    name: str
    similarity: float
    recall: dict[str, float]
    """By model: the chosen ones, then those that were not."""


@dataclass(frozen=True)
class ModelEvidence:
    """A model that was chosen for the class, or the best of those that were not."""

    name: str
    role: Literal["chosen", "runner-up"]
    reuse: float
    """(7), by which it was chosen."""
    precision: float
    """(6) on this class."""
    overall: float
    """The mean of (6) over all classes."""


@dataclass(frozen=True)
class Explanation(Shown):
    """Why one class got its models."""

    name: str
    alpha: float
    models: tuple[ModelEvidence, ...]
    nodes: tuple[NodeEvidence, ...]

    @property
    def chosen(self) -> list[str]:
        """The names of the class's models, best first."""
        return [one.name for one in self.models if one.role == "chosen"]

    @property
    def margin(self) -> float | None:
        """By how much the last chosen model's reuse metric is above the runner-up's."""
        if self.models[-1].role == "chosen":
            return None
        return self.models[-2].reuse - self.models[-1].reuse

    def as_dict(self) -> dict[str, Any]:
        """In plain lists, numbers and words (JSON)."""
        return {**asdict(self), "models": [asdict(one) for one in self.models], "nodes": list(map(asdict, self.nodes))}

    def shown(self) -> list[Table]:
        """A row for each node, a column for each model."""
        head = [self.name, "similarity", *(_named(one) for one in self.models)]
        rows = [
            [f"{node.name} ({node.id})", f"{node.similarity:.3f}", *(f"{value:.3f}" for value in node.recall.values())]
            for node in self.nodes
        ]
        sums = [
            ["this class", "", *(f"{one.precision:.3f}" for one in self.models)],
            ["all classes", "", *(f"{one.overall:.3f}" for one in self.models)],
            [f"reuse ({self.alpha:g} of it this class)", "", *(f"{one.reuse:.3f}" for one in self.models)],
        ]
        return [Table(head, [*rows, *sums], rules=[len(rows)])]


def explain(selection: Selection, name: str, *, others: int = 1) -> Explanation:
    """The evidence for one class of a selection: of its models, and of the next best `others`."""
    from smelt.hub.selection.select import best_first

    number = selection.task.classes.index(name)
    chosen = selection.chosen[number]
    beside = [model for model in best_first(selection.reuse[:, number]) if model not in chosen]
    shown = [*chosen, *beside[:others]]
    overall = selection.precision.mean(axis=1)
    models = tuple(
        ModelEvidence(
            selection.models[model],
            "chosen" if model in chosen else "runner-up",
            float(selection.reuse[model, number]),
            float(selection.precision[model, number]),
            float(overall[model]),
        )
        for model in shown
    )
    place = {node.number: column for column, node in enumerate(selection.nodes)}
    nodes = tuple(
        NodeEvidence(
            selection.nodes[place[node]].id,
            selection.nodes[place[node]].name,
            similarity,
            {selection.models[model]: float(selection.recall[model, place[node]]) for model in shown},
        )
        for node, similarity in selection.match.nearest[number]
    )
    return Explanation(name, selection.alpha, models, nodes)


def selection_blocks(selection: Selection) -> list[Block]:
    """A whole selection: the models of each class, then the ranking of all models."""
    words, count = selection.task, len(selection.task.classes)
    settings = f"k = {selection.k}, alpha = {selection.alpha:g}"
    title = f"{count} class{'es' * (count != 1)}, {words.domain}, {words.task}; {settings}"
    classes = [
        [name, ", ".join(models), ", ".join(selection.nodes_of(number)[:3])]
        for number, (name, models) in enumerate(zip(words.classes, selection.chosen_names, strict=True))
    ]
    ranking = [
        [name, Cell(f"{overall:.3f}", best=name in selection.used), "used" if name in selection.used else ""]
        for name, overall in selection.ranking
    ]
    more = len(classes) - _LIST
    return [
        Table(["class", "models", "nearest nodes"], classes[:_LIST], title, left=range(3)),
        Lines([f"and {more} more class{'es' * (more != 1)}"] if more > 0 else []),
        Table(["model", "overall", ""], ranking[:_LIST], left=(0, 2)),
        Lines([f"and {len(ranking) - _LIST} more models"] if len(ranking) > _LIST else []),
    ]


def _named(model: ModelEvidence) -> str:
    return model.name if model.role == "chosen" else f"{model.name} (runner-up)"
