from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import ONE, Label, LabelKey
from smelt.hub.matching.match import Match, match_similarities
from smelt.hub.selection.select import Selection, TaskWords, choose, class_precision, reuse_metric, select_models

RECALL = np.array([[0.75, 1.0, 0.5], [0.25, 0.5, 1.0]])
Z = np.array([[0.9, 0.0], [0.6, 0.5], [0.0, 0.8]])
MATCH = match_similarities(np.array([[0.9, 0.6, 0.1, 0.2], [0.2, 0.5, 0.8, 0.1]]), nodes=2)
WORDS = TaskWords(("dog", "car"))


ANSWERS = {
    "first": ((0, 0, 0, 1), (1, 1, 1, 1), (2, 2, 0, 0), (3, 3, 3, 3)),
    "second": ((0, 1, 1, 1), (1, 1, 2, 2), (2, 2, 2, 2), (0, 0, 0, 0)),
}
"""What each model answers on the four pictures of each of four nodes; its recall is that of M3."""


@lru_cache
def _graph() -> SemanticGraph:
    """Four nodes; the first two pictures of the first two nodes are photos, the rest sketches."""
    names = ("dog", "wheel", "car", "sky")
    nodes = [
        NewNode(
            f"{name}.n.01",
            name,
            f"the {name}",
            pictures=[
                ("photo" if node < 2 and number < 2 else "sketch", f"{name} {number}", _pixels(4 * node + number))
                for number in range(4)
            ],
        )
        for node, name in enumerate(names)
    ]
    return SemanticGraph.build("four", nodes)


def _pixels(shade: int) -> np.ndarray:
    return np.full((2, 2, 3), shade, dtype=np.uint8)


def _label(name: str) -> Label:
    """A model that sees exactly the node that it answers."""
    eye = ONE * np.eye(4, dtype=np.int16)
    return Label(LabelKey(name, _graph().version, "", "caption"), eye[np.concatenate(ANSWERS[name])], eye)


@lru_cache
def _labels() -> dict[str, Label]:
    return {name: _label(name) for name in ANSWERS}


@lru_cache
def _indexes() -> dict[str, Index]:
    return {name: Index.build(label, _graph()) for name, label in _labels().items()}


def test_the_numbers_of_m3_with_the_papers_overall_term() -> None:
    precision = class_precision(RECALL, Z)
    assert precision == pytest.approx(np.array([[1.275, 0.9], [0.525, 1.05]]))
    reuse = reuse_metric(precision, alpha=0.7)
    assert reuse == pytest.approx(np.array([[1.21875, 0.95625], [0.60375, 0.97125]]))
    assert choose(reuse, 1) == [(0,), (1,)]


def test_the_numbers_of_m3_with_the_other_classes_only() -> None:
    reuse = reuse_metric(class_precision(RECALL, Z), alpha=0.7, overall="others")
    assert reuse == pytest.approx(np.array([[1.1625, 1.0125], [0.6825, 0.8925]]))
    assert choose(reuse, 1) == [(0,), (0,)]


def test_the_numbers_of_m3_with_columns_that_sum_to_one() -> None:
    precision = class_precision(RECALL, Z, normalise="column")
    assert precision == pytest.approx(np.array([[0.85, 0.692308], [0.35, 0.807692]]), abs=5e-7)
    reuse = reuse_metric(precision, alpha=0.7)
    assert reuse == pytest.approx(np.array([[0.826346, 0.715962], [0.418654, 0.739038]]), abs=5e-7)


def test_alpha_one_is_the_class_alone_and_alpha_zero_one_set_of_models_for_all() -> None:
    precision = class_precision(RECALL, Z)
    assert reuse_metric(precision, alpha=1.0).tolist() == precision.tolist()
    flat = reuse_metric(precision, alpha=0.0)
    assert (flat == flat[:, :1]).all()
    assert len(set(choose(flat, 2))) == 1


@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e6])
def test_a_positive_factor_on_the_transfer_matrix_changes_no_choice(factor: float) -> None:
    draw = np.random.default_rng(1)
    for _ in range(20):
        recall, transfer = draw.random((6, 9)), draw.random((9, 4)) * (draw.random((9, 4)) < 0.4)
        plain = choose(reuse_metric(class_precision(recall, transfer)), 3)
        assert choose(reuse_metric(class_precision(recall, factor * transfer)), 3) == plain


def test_ties_go_to_the_model_that_stands_first() -> None:
    assert choose(np.array([[0.2], [0.9], [0.9], [0.9]]), 2) == [(1, 2)]


def test_copies_of_a_model_tie_exactly_wherever_they_stand() -> None:
    draw = np.random.default_rng(2)
    recall, transfer = draw.random((33, 41)), draw.random((41, 7))
    recall[32] = recall[5]
    reuse = reuse_metric(class_precision(recall, transfer))
    assert reuse[32].tolist() == reuse[5].tolist()


def test_more_models_than_there_are_gives_all() -> None:
    assert choose(np.array([[0.2], [0.9]]), 5) == [(1, 0)]


def test_one_class_alone_has_no_others() -> None:
    precision = np.array([[0.4], [0.6]])
    assert reuse_metric(precision, overall="others") == pytest.approx(precision)


def test_a_class_that_matched_nothing_has_a_precision_of_zero_when_columns_are_normalised() -> None:
    assert class_precision(RECALL, np.zeros((3, 1)), normalise="column").tolist() == [[0.0], [0.0]]


def test_selection_goes_from_indexes_to_names() -> None:
    found = select_models(_indexes(), MATCH, WORDS)
    assert found.recall.tolist() == RECALL.tolist()
    assert found.chosen_names == (("first",), ("second",))
    assert found.used == ("first", "second")
    assert found.ranking == [("first", pytest.approx(1.0875)), ("second", pytest.approx(0.7875))]
    assert found.settings == {"metric": "recall", "normalise": "none", "overall": "all", "pictures": "all"}


def test_precision_and_f1_count_what_a_model_says_wrongly() -> None:
    # The first model says 0, 1, 2 on 5, 5, 2 of the twelve pictures and is right on 3, 4, 2 of them.
    words: dict[str, Any] = {"graph": _graph(), "labels": _labels()}
    precise = select_models(_indexes(), MATCH, WORDS, metric="precision", **words)
    assert precise.recall[0] == pytest.approx([3 / 5, 4 / 5, 2 / 2])
    both = select_models(_indexes(), MATCH, WORDS, metric="f1", **words)
    assert both.recall[0] == pytest.approx([6 / 9, 8 / 9, 4 / 6])


def test_only_pictures_of_the_domain_count_where_a_node_has_some() -> None:
    words: dict[str, Any] = {"graph": _graph(), "pictures": "domain", "style": "photo"}
    found = select_models(_indexes(), MATCH, WORDS, **words)
    assert found.recall.tolist() == [[1.0, 1.0, 0.5], [0.5, 1.0, 1.0]]
    assert found.settings["style"] == "photo"
    precise = select_models(_indexes(), MATCH, WORDS, metric="precision", labels=_labels(), **words)
    assert precise.recall[0] == pytest.approx([2 / 4, 2 / 2, 2 / 2])
    with pytest.raises(RecipeError, match="did you mean 'photo'"):
        select_models(_indexes(), MATCH, WORDS, **{**words, "style": "photos"})


def test_the_graph_names_the_nodes() -> None:
    found = select_models(_indexes(), MATCH, WORDS, graph=_graph())
    assert [(node.id, node.name) for node in found.nodes] == [
        ("dog.n.01", "dog"),
        ("wheel.n.01", "wheel"),
        ("car.n.01", "car"),
    ]
    assert [node.name for node in select_models(_indexes(), MATCH, WORDS).nodes] == ["node 0", "node 1", "node 2"]


def test_options_reach_the_formulas() -> None:
    assert select_models(_indexes(), MATCH, WORDS, overall="others").used == ("first",)
    assert select_models(_indexes(), MATCH, WORDS, alpha=0.0).used == ("first",)
    assert select_models(_indexes(), MATCH, WORDS, k=2).chosen == ((0, 1), (1, 0))
    assert select_models(_indexes(), MATCH, WORDS, normalise="column").precision[0, 0] == pytest.approx(0.85)


def test_a_selection_survives_json() -> None:
    before = select_models(_indexes(), MATCH, WORDS, settings={"embedder": "hashed"})
    content = json.loads(json.dumps(before.as_dict()))
    after = Selection.from_dict(content)
    assert after.as_dict() == before.as_dict()
    assert after.explain("car") == before.explain("car")
    assert after.settings["embedder"] == "hashed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"alpha": 1.2}, "from 0 to 1; got 1.2"),
        ({"k": 0}, "at least 1; got 0"),
        ({"metric": "accuracy"}, "no metric named 'accuracy'"),
        ({"normalise": "row"}, "got 'row'"),
        ({"overall": "some"}, "got 'some'"),
        ({"metric": "f1"}, "needs the models' labels and the graph"),
        ({"pictures": "domain"}, "needs the graph and a style"),
        ({"pictures": "nice"}, "no choice of pictures named 'nice'"),
    ],
)
def test_a_wrong_word_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        select_models(_indexes(), MATCH, WORDS, **words)


def test_a_match_of_another_task_is_refused() -> None:
    with pytest.raises(RecipeError, match="3 classes, but the match 2"):
        select_models(_indexes(), MATCH, TaskWords(("a", "b", "c")))
    with pytest.raises(RecipeError, match="no labelled model"):
        select_models({}, MATCH, WORDS)


def test_a_match_holds_arrays_and_is_not_compared_by_accident() -> None:
    assert Match(MATCH.selected, MATCH.transfer, MATCH.nearest) != MATCH
