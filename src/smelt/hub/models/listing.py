"""The models of a hub as cards, with where each stands: labelled, being labelled, waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.hub.labels.labelling import Labelling
from smelt.hub.models.cards import LabelJob, ModelCard, ModelStatus, record

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore

__all__ = ["card", "cards"]


def cards(store: HubStore, labelling: Labelling, graph: SemanticGraph, search: str = "") -> list[ModelCard]:
    """All models, or those that the words of a search fit, by name."""
    from smelt.hub.store.jobs import job_rows

    words = search.lower().split()
    rows = [row for row in store.models() if _fits(row, words)]
    ready = labelling.digests(rows, graph)
    last: dict[str, LabelJob] = {}
    for job in job_rows(store):
        last.setdefault(job.model, job)
    return [_card(row, row.name in ready, last.get(row.name)) for row in rows]


def card(store: HubStore, labelling: Labelling, graph: SemanticGraph, name: str) -> ModelCard:
    """One model with its files."""
    from smelt.hub.store.jobs import job_rows

    row = store.model(name)
    job = next(iter(job_rows(store, name)), None)
    files = tuple((file.name, file.size, file.sha256) for file in row.files)
    return _card(row, bool(labelling.digests([row], graph)), job, files)


def _fits(row: ModelRow, words: list[str]) -> bool:
    text = f"{row.name} {row.description} {row.architecture} {row.ref}".lower()
    return all(word in text for word in words)


def _card(row: ModelRow, ready: bool, job: LabelJob | None, files: tuple[tuple[str, int, str], ...] = ()) -> ModelCard:
    status: ModelStatus = "waiting"
    if ready:
        status = "ready"
    elif job is not None and job.status in ("waiting", "running"):
        status = "labelling"
    elif job is not None and job.status == "failed":
        status = "failed"
    error = job.error if job is not None and status == "failed" else ""
    return record(ModelCard, row, status=status, label=ready, error=error, files=files)
