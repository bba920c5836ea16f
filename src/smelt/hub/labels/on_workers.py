"""Labelling by workers: processes of this machine, a Ray cluster, or Slurm jobs, whatever `smelt.jobs` runs work on.

A worker reads a model and the graph from the hub's folder and writes the label into its staging; it has no access to
the database and needs none. What it made is kept by the process that asked, as if it had made it itself: the numbers
are the same wherever they are computed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import Label, label_key, make_label
from smelt.hub.selection.model_cache import model_folder
from smelt.jobs.executor import Executor, WorkerAnswer, find_executor
from smelt.jobs.job import Job
from smelt.jobs.run import run_jobs

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.labelling import Labelling
    from smelt.hub.models.cards import Progress
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore

__all__ = ["LabelWorker", "Made", "label_on_workers", "make_in_folder"]

_CALL = "smelt.hub.labels.on_workers:make_in_folder"
_STARTING = threading.Lock()


@dataclass(frozen=True)
class Made:
    """A label and its index, and how long they took."""

    label: Label
    index: Index
    seconds: float

    @classmethod
    def read(cls, folder: Path, seconds: float) -> Made:
        return cls(Label.open(folder / "archive"), Index.open(folder / "index"), seconds)


def make_in_folder(*, model: str, graph: str, text: Any, digest: str, out: str) -> dict[str, str]:
    """What a worker does: the label of a model on a graph, and its index, both given as folders."""
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.models.families.load import load

    if not Path(graph).is_dir() or not Path(out).is_dir():
        raise RecipeError(f"{graph}: this worker does not see the hub's folder; it has to lie on a disk that all share")
    opened, classifier = SemanticGraph.load(graph), load(model, "classifier")
    if label_key(classifier, opened, text=text).digest != digest:
        raise CorruptFile(f"{model} is no longer the model that was added; remove it and add it again")
    label = make_label(classifier, opened, text=text)
    Index.build(label, opened).save(Path(out) / "index")
    label.save(Path(out) / "archive")
    return {"digest": digest}


def label_on_workers(
    store: HubStore,
    labelling: Labelling,
    rows: Sequence[ModelRow],
    present: Callable[[], SemanticGraph],
    *,
    executor: str | Executor,
    workers: int,
    force: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Label models, several at a time, each kept as soon as it is made; gives their names.

    One that cannot be labelled keeps no other from it; it is told at the end. `progress` hears of models.
    """
    done, faults = [], list[SmeltError]()
    with store.staging() as staging:
        places = {row.name: staging / str(number) for number, row in enumerate(rows)}
        known = {row.name: row for row in rows}
        todo = (_job(store, labelling, row, present(), places[row.name]) for row in rows)
        with contextlib.closing(run_jobs(todo, executor=executor, workers=workers)) as run:
            for one in run:
                try:
                    assert isinstance(one.value, dict)
                    made = Made.read(places[one.job.name], one.seconds)
                    labelling.make(known[one.job.name], present, force=force, made=made)
                    done.append(one.job.name)
                except SmeltError as error:
                    faults.append(error)
                if progress is not None:
                    progress(len(done) + len(faults), len(rows))
    if faults:
        raise faults[0]
    return done


class LabelWorker:
    """One worker of a service, which labels one model after another; it is started with the first."""

    def __init__(self, executor: str, workers: int):
        self._team = _Kept(find_executor(executor, workers))

    def make(self, store: HubStore, labelling: Labelling, row: ModelRow, graph: SemanticGraph, staging: Path) -> Made:
        """The label of a model, made elsewhere, in a folder of staging."""
        job = _job(store, labelling, row, graph, staging / "label")
        began = time.perf_counter()
        for done in run_jobs([job], executor=self._team):
            assert isinstance(done.value, dict)
        return Made.read(staging / "label", time.perf_counter() - began)

    def close(self) -> None:
        self._team.end()


class _Kept:
    """An executor that lives from job to job, and takes one at a time."""

    workers = 1

    def __init__(self, team: Executor):
        self._team, self._started = team, False

    def start(self) -> None:
        if not self._started:
            with _STARTING:  # several would start a cluster each
                self._team.start()
            self._started = True

    def submit(self, ticket: int, job: Job) -> None:
        self._team.submit(ticket, job)

    def wait(self) -> WorkerAnswer | None:
        return self._team.wait()

    def stop(self) -> None:
        """It is wanted again."""

    def end(self) -> None:
        if self._started:
            self._team.stop()
            self._started = False


def _job(store: HubStore, labelling: Labelling, row: ModelRow, graph: SemanticGraph, out: Path) -> Job:
    out.mkdir()
    words = {
        "model": str(model_folder(store, row)),
        "graph": str(store.graph_folder(graph.version)),
        "text": labelling.text,
        "digest": labelling.key(row, graph).digest,
        "out": str(out),
    }
    return Job(_CALL, words, name=row.name)
