"""The hub at work: its models, its graph and the target tasks brought together; what each method thinks of each model.

What a method thinks is a table [models, classes]: the higher, the sooner a model is asked about a class. It does not
depend on the other models of the hub (ModelGPT's linear model is the exception: it is fitted on those that are there).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.errors import RecipeError
from smelt.hub.graph.graph import SemanticGraph
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import Label, NodeText
from smelt.hub.selection.baselines import graph_accuracies
from smelt.hub.selection.lovm import Linear
from smelt.hub.selection.select import Selection, reuse_metric, select_models
from smelt.suites.hub.growth import Opinion
from smelt.suites.hub.model import HubModel, Identity
from smelt.suites.hub.suite import Method
from smelt.suites.hub.task_matching import TaskMatching
from smelt.suites.hub.task_scores import TaskScores, softmax

__all__ = ["WorkingHub", "forget_work", "work_of"]

_MEMORY = 1 << 30
"""Bytes of answers that are kept in memory."""


def work_of(words: Mapping[str, Any]) -> WorkingHub:
    """The hub of these words; the next unit that this process computes asks for the same one."""
    return _work(json.dumps(words))


def forget_work() -> None:
    """Let go of the hub that this process keeps: files may change between two runs."""
    _work.cache_clear()


@lru_cache(maxsize=1)
def _work(words: str) -> WorkingHub:
    content = json.loads(words)
    return WorkingHub(content, TaskMatching(content))


class WorkingHub:
    """Models, graph and tasks of one suite.

    Made from plain words: models {name: ref}, known {name: Identity}, readers {name: ref}, known_with_readers {name:
    Identity}, listed, scale, seed, device, threads and allow_pickle; and those of TaskMatching. With `reading` every
    model that has a reader reads with it: what is computed is kept apart from what its own text tower gives.
    """

    def __init__(self, words: Mapping[str, Any], matching: TaskMatching, *, reading: bool = False):
        self.words, self.matching, self.tasks, self._reading = words, matching, matching.tasks, reading
        readers = words.get("readers") or {} if reading else {}
        known = {**(words.get("known") or {}), **(words.get("known_with_readers") or {} if reading else {})}
        self.members = {
            name: HubModel(
                name,
                ref,
                device=words["device"],
                threads=words["threads"],
                known=Identity(*known[name]) if name in known else None,
                allow_pickle=bool(words.get("allow_pickle")),
                reader=readers.get(name),
            )
            for name, ref in words["models"].items()
        }
        self.names = list(self.members)
        self._task_scores: dict[str, TaskScores] = {}
        self._single: dict[str, NDArray[np.float64]] = {}
        self._precision: dict[tuple[str, ...], NDArray[np.float64]] = {}
        self._indexes: dict[str, dict[str, Index]] = {}
        self._on_graph: dict[tuple[str, bool], NDArray[np.float64]] = {}
        self._features: dict[tuple[str, bool], NDArray[np.float64]] = {}

    def of(self, method: Method) -> WorkingHub:
        """The hub as a method has it: with the readers where it reads with them."""
        return self._with_readers if method.reader else self

    @cached_property
    def _with_readers(self) -> WorkingHub:
        return self if self._reading else WorkingHub(self.words, self.matching, reading=True)

    @property
    def graph(self) -> SemanticGraph:
        return self.matching.graph

    def indexes(self, text: NodeText) -> dict[str, Index]:
        """Every model's index, where it reads this of a node."""
        if text not in self._indexes:
            self._indexes[text] = {name: member.index(self.graph, text) for name, member in self.members.items()}
        return self._indexes[text]

    def labels(self, text: NodeText) -> dict[str, Label]:
        """Every model's label, where it reads this of a node."""
        return {name: member.label(self.graph, text) for name, member in self.members.items()}

    def on_graph(self, text: NodeText, unseen: bool = False) -> NDArray[np.float64]:
        """How every model does on the graph as a whole, or on its pictures that no model was trained on."""
        if (text, unseen) not in self._on_graph:
            found = graph_accuracies(self.indexes(text), self.graph, "unseen" if unseen else "all")
            self._on_graph[text, unseen] = np.array(list(found.values()))
        return self._on_graph[text, unseen]

    def true_classes(self, task: str) -> NDArray[np.int64]:
        """The classes of a task's test pictures."""
        return self.matching.true_classes(task)

    def task_scores(self, task: str) -> TaskScores:
        """A task with what every model says of its pictures."""
        if task not in self._task_scores:
            limit, known = self.words["limit"], self.tasks[task]
            cosines = (member.cosines(known, self.graph, limit) for member in self.members.values())
            said = np.stack([softmax(one, self.words["scale"]) for one in cosines])
            self._task_scores[task] = TaskScores(task, self.true_classes(task), said)
            while (
                len(self._task_scores) > 1
                and sum(one.probabilities.nbytes for one in self._task_scores.values()) > _MEMORY
            ):
                self._task_scores.pop(next(iter(self._task_scores)))
        return self._task_scores[task]

    def accuracy(self, task: str) -> NDArray[np.float64]:
        """The share of a task's pictures that every model by itself gets right."""
        if task not in self._single:
            known = self.task_scores(task)
            self._single[task] = known.single / len(known.labels)
        return self._single[task]

    def opinion(self, method: Method, task: str, alpha: float) -> Opinion:
        """What a method thinks of the models that are there, for each class of a task."""
        if method.by == "labels":
            found = reuse_metric(self.precision(method, task), alpha=alpha, overall=method.overall)
        elif method.by == "text":
            return lambda there: self._constant(self.predicted(task, there, method.text, method.unseen), task)
        else:
            found = self._constant(self._values(method, task), task)
        return lambda there: np.asarray(found[there])

    def _values(self, method: Method, task: str) -> NDArray[np.float64]:
        """One number of every model, by which it is chosen for all classes alike."""
        if method.by == "oracle":
            return self.accuracy(task)
        if method.by == "listed":
            return np.array([self.words["listed"][name] for name in self.names])
        return self.on_graph(method.text, method.unseen)

    def overall(self, method: Method, task: str) -> NDArray[np.float64]:
        """The order that a method gives the models on a whole task, as numbers: the higher the better."""
        if method.by == "labels":
            found: NDArray[np.float64] = self.precision(method, task).mean(axis=1)
            return found
        return self.opinion(method, task, 0.0)(np.arange(len(self.names)))[:, 0]

    def precision(self, method: Method, task: str) -> NDArray[np.float64]:
        """What every model should achieve on every class, by its label."""
        key = (task, method.metric, method.normalise, method.pictures, method.text)
        if key not in self._precision:
            self._precision[key] = self._select(method, task).precision
        return self._precision[key]

    def _select(self, method: Method, task: str) -> Selection:
        words, found = self.matching.match(task)
        return select_models(
            self.indexes(method.text),
            found,
            words,
            graph=self.graph,
            metric=method.metric,
            normalise=method.normalise,
            overall=method.overall,
            pictures=method.pictures,
            style=self.matching.style(task) if method.pictures in ("domain", "domain-unseen") else None,
            labels=self.labels(method.text) if method.metric != "recall" else None,
        )

    def text_features(self, text: NodeText, unseen: bool = False) -> NDArray[np.float64]:
        """What every model makes of every task's texts, and how it does on the graph, [tasks, models, features]."""
        if (text, unseen) not in self._features:
            found = [[self.of_texts(name, task) for name in self.names] for task in self.tasks]
            graph = np.broadcast_to(self.on_graph(text, unseen)[:, None], (len(self.tasks), len(self.names), 1))
            self._features[text, unseen] = np.concatenate([np.array(found), graph], axis=2)
        return self._features[text, unseen]

    def of_texts(self, model: str, task: str) -> NDArray[np.float64]:
        """What one model makes of the texts of one task."""
        texts, seed = self.matching.texts(task), self.words["seed"]
        return self.members[model].text_scores(self.tasks[task], texts, self.graph, seed)

    def predicted(
        self, task: str, there: NDArray[np.int64], text: NodeText, unseen: bool = False
    ) -> NDArray[np.float64]:
        """ModelGPT: the models that are there by a linear model of text features, fitted on them and other tasks."""
        names = list(self.tasks)
        others = [place for place, name in enumerate(names) if not self.matching.share_pictures(name, task)]
        if not others:
            raise RecipeError(f"{task}: no task has other pictures, so there is nothing to learn a ranking from")
        truth = np.stack([self.accuracy(names[place])[there] for place in others])
        features = self.text_features(text, unseen)[:, there]
        aims = truth - truth.mean(axis=1, keepdims=True)  # what ranks models is how far they are from their task's mean
        rows = features[others].reshape(-1, features.shape[2])
        fitted = Linear.fit(rows, aims.reshape(-1).tolist())  # type: ignore[arg-type]  # an array is a sequence of rows
        found: NDArray[np.float64] = fitted.intercept + features[names.index(task)] @ fitted.coefficients
        return found

    def _constant(self, values: NDArray[np.float64], task: str) -> NDArray[np.float64]:
        """One number for each model, the same for all classes."""
        return np.repeat(values[:, None], len(self.tasks[task].classes), axis=1)
