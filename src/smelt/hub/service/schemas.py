"""What the JSON API takes and gives; these classes are its OpenAPI schema."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from smelt.hub.models.cards import as_json
from smelt.hub.service.forms import DOMAIN, TASK, Pictures, TaskForm
from smelt.hub.service.problems import without_paths

if TYPE_CHECKING:
    from smelt.hub.graph.graph import Node, SemanticGraph
    from smelt.hub.models.cards import LabelJob, ModelCard, Prediction, Strengths

__all__ = [
    "ClassScores",
    "GraphOut",
    "HubOut",
    "JobOut",
    "ModelDetail",
    "ModelOut",
    "ModelsOut",
    "NodeDetail",
    "NodeOut",
    "PredictOut",
    "ProblemOut",
    "SelectIn",
    "SelectOut",
    "SubmitOut",
]


class ModelOut(BaseModel):
    """One model of the hub."""

    name: str
    hash: str
    ref: str
    family: str
    architecture: str
    parameters: int
    bytes: int
    description: str
    licence: str
    submitted_by: str = Field(description="whose token it came with; empty if it did not come over the network")
    added: datetime
    status: str
    label: bool
    error: str

    @classmethod
    def of(cls, card: ModelCard) -> ModelOut:
        words = {name: getattr(card, name) for name in cls.model_fields}
        return cls.model_validate({**words, "ref": without_paths(card.ref), "error": without_paths(card.error)})


class ModelsOut(BaseModel):
    """Models that a search found."""

    models: list[ModelOut]


class NodeScoreOut(BaseModel):
    """How a model does on a node: the share of the node's pictures that it takes for it."""

    id: str
    name: str
    recall: float
    pictures: int


class StrengthsOut(BaseModel):
    """What a model is good and bad at."""

    overall: float
    by_style: dict[str, float]
    by_branch: dict[str, float]
    best: list[NodeScoreOut]
    worst: list[NodeScoreOut]
    nodes: int
    pictures: int


class ModelDetail(ModelOut):
    """A model with its strengths on the graph; null while it has no label."""

    strengths: StrengthsOut | None = None

    @classmethod
    def with_strengths(cls, card: ModelCard, strengths: Strengths | None) -> ModelDetail:
        words = as_json(strengths) if strengths else None
        return cls.model_validate({**ModelOut.of(card).model_dump(), "strengths": words})


class NodeOut(BaseModel):
    """A meaning of the graph."""

    id: str
    name: str
    names: list[str]
    definition: str
    parents: list[str]
    children: list[str]
    pictures: int
    unseen: int = Field(description="pictures that no model was trained on")

    @classmethod
    def of(cls, graph: SemanticGraph, node: Node) -> NodeOut:
        return cls(
            id=node.id,
            name=node.name,
            names=list(node.names),
            definition=node.definition,
            parents=list(node.parents),
            children=list(graph.children(node.id)),
            pictures=len(node.pictures),
            unseen=graph.unseen_of(node),
        )


class PictureOut(BaseModel):
    """A picture of a node."""

    number: int
    style: str
    source: str
    seen: bool = Field(description="whether some model was trained on it")
    url: str


class NodeDetail(BaseModel):
    """A node with its neighbours and pictures."""

    node: NodeOut
    path: list[str] = Field(description="from the root to the first parent")
    parents: list[NodeOut]
    children: list[NodeOut]
    siblings: list[NodeOut]
    pictures: list[PictureOut]


class GraphOut(BaseModel):
    """The graph, and the nodes that a search found (its roots without a search)."""

    name: str
    version: str
    nodes: int
    pictures: int
    styles: list[str]
    notice: str
    found: list[NodeOut]


class HubOut(BaseModel):
    """The hub at a glance."""

    title: str
    version: str
    models: int
    labelled: int
    graph: str
    nodes: int
    pictures: int


class SelectIn(BaseModel):
    """A task in words."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"classes": ["cat", "dog"], "domain": "sketch", "task": "telling pets", "k": 1}]
        },
    )
    classes: list[str] = Field(description="the names of the classes")
    domain: str = Field(DOMAIN, description="what kind of pictures: photo, sketch, ...")
    task: str = Field(TASK, description="what the task is, in a few words")
    k: int = Field(1, description="models for each class")
    alpha: float = Field(0.7, description="1: each class for itself; 0: one set of models for the whole task")
    nodes: int = Field(5, description="nodes of the graph that are kept for each class")
    pictures: Pictures = Field(
        "all",
        description="of the nodes: all (the paper), those in the style of the domain (domain), those that no model was "
        "trained on (unseen), or both (domain-unseen)",
    )

    def form(self) -> TaskForm:
        words = self.model_dump()
        return TaskForm(**{**words, "classes": tuple(" ".join(name.split()) for name in self.classes if name.strip())})


class RankedOut(BaseModel):
    model: str
    precision: float = Field(description="predicted, mean over the classes")
    classes: int = Field(description="for how many classes it is chosen")


class MatchedOut(BaseModel):
    id: str
    name: str
    similarity: float
    recall: dict[str, float] = Field(description="by model, for those chosen and the next best")


class ChosenOut(BaseModel):
    """Why a class got its models."""

    name: str
    models: list[str]
    nodes: list[MatchedOut]


class SelectOut(BaseModel):
    """Which models to use, and why."""

    used: list[str]
    ranking: list[RankedOut]
    classes: list[ChosenOut]
    k: int
    alpha: float
    settings: dict[str, Any]


class ClassScores(BaseModel):
    """One picture: its best class and every class's score. Scores need not add up to one."""

    picture: str
    best: str
    scores: dict[str, float]


class PredictOut(BaseModel):
    """What the chosen models say."""

    used: list[str]
    predictions: list[ClassScores]

    @classmethod
    def of(cls, prediction: Prediction, names: list[str]) -> PredictOut:
        rows = zip(names, prediction.names, prediction.scores.tolist(), strict=True)
        return cls(
            used=list(prediction.used),
            predictions=[
                ClassScores(picture=name, best=best, scores=dict(zip(prediction.classes, row, strict=True)))
                for name, best, row in rows
            ],
        )


class JobOut(BaseModel):
    """Work in the background."""

    id: int
    kind: str
    model: str
    status: str
    done: int
    total: int
    error: str
    created: datetime
    started: datetime | None
    finished: datetime | None
    cancelled: bool = Field(description="somebody wants it to end; it may still run for a moment")

    @classmethod
    def of(cls, job: LabelJob) -> JobOut:
        words = {name: getattr(job, name) for name in cls.model_fields}
        return cls.model_validate({**words, "error": without_paths(job.error)})


class SubmitOut(BaseModel):
    """A model that was taken; its labelling is under way."""

    model: ModelOut
    job: int
    url: str = Field(description="where its progress is shown")


class _Fault(BaseModel):
    status: int
    title: str
    message: str


class ProblemOut(BaseModel):
    """Why a request was turned down, and what to do."""

    error: _Fault
