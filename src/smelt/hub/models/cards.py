"""What the hub answers with: records of models, nodes, jobs, tokens and predictions, and how they follow from rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from smelt.display.blocks import Facts, Lines, Table
from smelt.display.shown import Shown, ShownList

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.labelling import Labelling
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore, Order

__all__ = [
    "JobStatus",
    "LabelJob",
    "ModelCard",
    "ModelCards",
    "ModelStatus",
    "NodeScore",
    "Prediction",
    "Progress",
    "Strengths",
    "Token",
    "as_json",
    "card",
    "cards",
    "record",
]

T = TypeVar("T")
_CARD = "name description status error architecture parameters licence submitted_by ref base hash".split()
"""What is shown of a model."""
ModelStatus: TypeAlias = Literal["waiting", "labelling", "ready", "failed"]
"""waiting: no label on the hub's graph yet; labelling: a job is at it; failed: the last job could not."""
JobStatus: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


@dataclass(frozen=True)
class ModelCard(Shown):
    """One model of the hub."""

    name: str
    hash: str
    """Over its numbers, whatever file or format they came in."""
    ref: str
    """What it was added from; a model of the zoo stays where it is, others are copied into the hub. `submitted`: it
    came through the service."""
    family: str
    architecture: str
    parameters: int
    bytes: int
    """Of the files in the hub, or in the zoo; a delta pack's base is not counted."""
    description: str
    licence: str
    added: datetime
    status: ModelStatus
    label: bool
    """Whether it has a label on the hub's present graph, so that selections count it."""
    base: str = ""
    """The reference of the model underneath, if it is a delta pack."""
    error: str = ""
    """Why the last job failed."""
    files: tuple[tuple[str, int, str], ...] = ()
    """Name, bytes and SHA-256 of every file that lies in the hub."""
    submitted_by: str = ""
    """The name on the token it came with; empty if it was added on the machine itself."""

    def shown(self) -> list[Facts]:
        found = ((word, getattr(self, word)) for word in _CARD)
        written = ((word, f"{value:,}" if isinstance(value, int) else str(value)) for word, value in found if value)
        return [Facts([(word.replace("_", " "), value) for word, value in written])]


class ModelCards(ShownList[ModelCard]):
    """Models of a hub."""

    def shown(self) -> list[Table]:
        rows = [
            [one.name, one.status, f"{one.parameters / 1e6:.1f} M", f"{one.bytes / 1e6:.1f} MB", one.description]
            for one in self
        ]
        headings = ["model", "status", "parameters", "size", "description"]
        return [Table(headings, rows, left=(0, 1, 4), cut=True)] if rows else []


@dataclass(frozen=True)
class NodeScore:
    """How one model does on one node."""

    id: str
    name: str
    recall: float
    """Share of the node's pictures that it takes for the node, among all leaves of the graph."""
    pictures: int


@dataclass(frozen=True)
class Strengths(Shown):
    """What a model is good at, by its label."""

    model: str
    best: list[NodeScore]
    worst: list[NodeScore]
    by_style: dict[str, float]
    by_branch: dict[str, float]
    """By the nodes right under the graph's roots, those with the most pictures first."""
    overall: float
    nodes: int = 0
    pictures: int = 0

    def shown(self) -> list[Lines | Table]:
        overall = f"right on {100 * self.overall:.1f} % of {self.pictures:,} pictures, among {self.nodes} nodes"
        parts = [("by style", self.by_style), ("by branch", self.by_branch)]
        tables = [
            Table([title, "right %"], [[key, f"{100 * share:.1f}"] for key, share in part.items()])
            for title, part in parts
            if part
        ]
        for title, nodes in (("best nodes", self.best), ("worst nodes", self.worst)):
            rows = [[one.name, one.id, f"{100 * one.recall:.0f}", f"{one.pictures:,}"] for one in nodes]
            tables.append(Table([title, "", "right %", "pictures"], rows, left=(0, 1)))
        return [Lines([overall]), *tables]


@dataclass(frozen=True)
class Prediction(Shown):
    """What the selected models say of some pictures."""

    classes: tuple[str, ...]
    scores: NDArray[np.float64] = field(repr=False)
    """[pictures, classes]; they need not add up to one, as every class asks models of its own."""
    best: NDArray[np.int64]
    """The number of the best class for every picture."""
    used: tuple[str, ...]
    """The models that were run."""

    @property
    def names(self) -> list[str]:
        """The best class for every picture."""
        return [self.classes[number] for number in self.best]

    def shown(self) -> list[Table | Lines]:
        return self.table([str(number) for number in range(1, len(self.best) + 1)])

    def table(self, pictures: Sequence[str]) -> list[Table | Lines]:
        """The best three classes of every picture, which have these names."""
        rows = []
        for name, scores in zip(pictures, self.scores, strict=True):
            order = (-scores).argsort(kind="stable")[:3]
            rows.append([name, *(f"{self.classes[int(number)]} {scores[number]:.3f}" for number in order)])
        headings = ["picture", "best", "second", "third"][: 1 + min(3, len(self.classes))]
        return [Table(headings, rows, left=range(len(headings))), Lines([f"by {', '.join(self.used)}"])]


@dataclass(frozen=True)
class LabelJob(Shown):
    """Work in the background."""

    id: int
    kind: str
    model: str
    status: JobStatus
    done: int
    total: int
    error: str
    created: datetime
    started: datetime | None
    finished: datetime | None
    cancelled: bool = False
    """Somebody wants it to end."""

    def shown(self) -> list[Lines]:
        far = f", {self.done:,} of {self.total:,}" if self.status == "running" and self.total else ""
        wish = ", to be cancelled" if self.cancelled and self.status == "running" else ""
        why = f": {self.error}" if self.error and self.status == "failed" else ""
        return [Lines([f"{self.id}  {self.kind} {self.model}  {self.status}{far}{wish}{why}"])]


@dataclass(frozen=True)
class Token:
    """Who may submit models. The secret itself is nowhere but with its owner."""

    name: str
    created: datetime
    revoked: datetime | None


def cards(
    store: HubStore,
    labelling: Labelling,
    graph: SemanticGraph,
    search: str = "",
    order: Order = "name",
    first: int = 0,
    most: int | None = None,
) -> ModelCards:
    """All models, or those that the words of a search fit, in an order; or some of them. Only these are loaded."""
    from smelt.hub.store.jobs import last_jobs

    rows = store.model_page(search, order, first, most)
    ready = labelling.digests(rows, graph)
    last = last_jobs(store)
    return ModelCards(_card_of(row, row.name in ready, last.get(row.name)) for row in rows)


def card(store: HubStore, labelling: Labelling, graph: SemanticGraph, name: str) -> ModelCard:
    """One model with its files."""
    from smelt.hub.store.jobs import job_rows

    row = store.model(name)
    job = next(iter(job_rows(store, name, 1)), None)
    files = tuple((file.name, file.size, file.sha256) for file in row.files)
    return _card_of(row, bool(labelling.digests([row], graph)), job, files)


def _card_of(
    row: ModelRow, ready: bool, job: LabelJob | None, files: tuple[tuple[str, int, str], ...] = ()
) -> ModelCard:
    status: ModelStatus = "waiting"
    if ready:
        status = "ready"
    elif job is not None and job.status in ("waiting", "running"):
        status = "labelling"
    elif job is not None and job.status == "failed":
        status = "failed"
    error = job.error if job is not None and status == "failed" else ""
    return record(ModelCard, row, status=status, label=ready, error=error, files=files)


def record(kind: type[T], row: object, **more: Any) -> T:
    """A record of this kind with the values of a row; `more` are those that the row does not have."""
    names = [one.name for one in dataclasses.fields(kind) if one.name not in more]  # type: ignore[arg-type]
    return kind(**{name: getattr(row, name) for name in names}, **more)


def as_json(record: Any) -> Any:
    """A record as plain JSON values: times in ISO format, arrays as lists."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {one.name: as_json(getattr(record, one.name)) for one in dataclasses.fields(record)}
    if isinstance(record, dict):
        return {key: as_json(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [as_json(value) for value in record]
    if isinstance(record, datetime):
        return record.isoformat()
    return record.tolist() if hasattr(record, "tolist") else record
