"""The tasks of a hub suite beside its graph, without any model: which nodes speak for a class, what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.hub.graph.graph import SemanticGraph, find_graph
from smelt.hub.matching.captions import Captioner, TemplateCaptions, find_captioner
from smelt.hub.matching.match import Match
from smelt.hub.matching.matching import Matching, task_words
from smelt.hub.selection.lovm import TaskTexts, task_texts
from smelt.hub.selection.select import TaskWords
from smelt.suites.hub.model import true_classes
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import picture_task

__all__ = ["TaskMatching"]


class TaskMatching:
    """Made from plain words: tasks {name: {domain, task}}, graph, embedder, captions, endpoint, templates, nodes."""

    def __init__(self, words: Mapping[str, Any]):
        self.words = words
        self.tasks = {name: _with_templates(picture_task(name), words.get("templates")) for name in words["tasks"]}
        self._texts: dict[str, TaskTexts] = {}
        self._matches: dict[str, tuple[TaskWords, Match]] = {}

    @cached_property
    def graph(self) -> SemanticGraph:
        return find_graph(self.words["graph"])

    def true_classes(self, task: str) -> NDArray[np.int64]:
        """The classes of a task's test pictures."""
        return true_classes(self.tasks[task], self.words["limit"])

    def match(self, task: str) -> tuple[TaskWords, Match]:
        """A task's words, and the nodes that speak for each of its classes."""
        if task not in self._matches:
            told = self.words["tasks"][task]
            words = task_words(self.tasks[task].classes, told["domain"], told["task"])
            nodes = self.words["nodes"]
            found, _ = self._matching.match(words, self.graph, nodes=nodes, captions=self._captions)
            self._matches[task] = words, found
        return self._matches[task]

    def style(self, task: str) -> str:
        """The style of the graph's pictures that is nearest to a task's domain."""
        return self._matching.style(self.words["tasks"][task]["domain"], self.graph)

    def texts(self, task: str) -> TaskTexts:
        """Captions and synonyms of a task's classes."""
        if task not in self._texts:
            told, classes = self.words["tasks"][task], self.tasks[task].classes
            self._texts[task] = task_texts(classes, self._glosses.gloss, domain=told["domain"], task=told["task"])
        return self._texts[task]

    def share_pictures(self, one: str, other: str) -> bool:
        """Whether two tasks are about pictures of the same collection; a task is with itself."""
        first, second = (set(self.words["tasks"][task].get("pictures") or [task]) for task in (one, other))
        return bool(first & second)

    @cached_property
    def _matching(self) -> Matching:
        name = self.words["embedder"]
        return Matching(name, self._endpoint if name.startswith("endpoint:") else {})

    @cached_property
    def _captions(self) -> Captioner:
        """Who describes the classes."""
        name = self.words.get("captions") or "template"
        return self._glosses if name == "template" else find_captioner(name, **self._endpoint)

    @cached_property
    def _glosses(self) -> TemplateCaptions:
        """By template and the graph alone, so that numbers do not depend on a WordNet that may be installed."""
        return TemplateCaptions(self.graph, lookup=lambda word: None)

    @property
    def _endpoint(self) -> dict[str, Any]:
        return {word: value for word, value in (self.words.get("endpoint") or {}).items() if value is not None}


def _with_templates(task: PictureTask, templates: list[str] | None) -> PictureTask:
    """A task with other prompts for its classes."""
    return task if templates is None else task.model_copy(update={"templates": tuple(templates)})
