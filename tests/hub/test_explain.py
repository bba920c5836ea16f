from __future__ import annotations

import json

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.matching.match import match_similarities
from smelt.hub.selection.select import NodeWords, Selection, TaskWords, choose, class_precision, reuse_metric


def _selection(k: int = 1) -> Selection:
    found = match_similarities(np.array([[0.9, 0.6, 0.1, 0.2], [0.2, 0.5, 0.8, 0.1]]), nodes=2)
    recall = np.array([[0.75, 1.0, 0.5], [0.25, 0.5, 1.0], [0.0, 0.0, 0.0]])
    precision = class_precision(recall, found.transfer)
    reuse = reuse_metric(precision)
    nodes = tuple(NodeWords(number, f"{name}.n.01", name) for number, name in enumerate(("dog", "wheel", "car")))
    return Selection(
        TaskWords(("puppy", "lorry"), "photo", "sorting"),
        ("first", "second", "third"),
        found,
        nodes,
        recall,
        precision,
        reuse,
        tuple(choose(reuse, k)),
        k,
        0.7,
    )


def test_a_class_is_explained_by_its_nodes_its_model_and_the_runner_up() -> None:
    why = _selection().explain("puppy")
    assert [(one.name, one.role) for one in why.models] == [("first", "chosen"), ("second", "runner-up")]
    assert [(node.id, node.similarity) for node in why.nodes] == [("dog.n.01", 0.9), ("wheel.n.01", 0.6)]
    assert why.nodes[0].recall == {"first": 0.75, "second": 0.25}
    assert why.models[0].precision == pytest.approx(1.275)
    assert why.models[0].overall == pytest.approx((1.275 + 0.9) / 2)
    assert why.margin == pytest.approx(1.21875 - 0.60375)


def test_the_precision_is_the_sum_over_the_shown_nodes() -> None:
    for name in ("puppy", "lorry"):
        why = _selection(2).explain(name)
        for model in why.models:
            assert model.precision == pytest.approx(
                sum(node.similarity * node.recall[model.name] for node in why.nodes)
            )


def test_where_every_model_is_chosen_there_is_no_runner_up() -> None:
    why = _selection(3).explain("lorry")
    assert [one.role for one in why.models] == ["chosen"] * 3
    assert why.margin is None


def test_the_text_shows_every_number_of_the_choice() -> None:
    lines = str(_selection().explain("puppy")).splitlines()
    assert lines[0].split() == ["puppy", "similarity", "first", "second", "(runner-up)"]
    assert lines[2].split() == ["dog", "(dog.n.01)", "0.900", "0.750", "0.250"]
    assert lines[-1].split()[-2:] == ["1.219", "0.604"]


def test_the_selections_text_names_classes_models_and_nodes() -> None:
    text = str(_selection())
    assert text.startswith("2 classes, photo, sorting; k = 1, alpha = 0.7")
    assert ["puppy", "first", "dog,", "wheel"] in [line.split() for line in text.splitlines()]
    assert ["third", "0.000"] in [line.split() for line in text.splitlines()]


def test_an_explanation_is_json() -> None:
    content = json.loads(json.dumps(_selection().explain("lorry").as_dict()))
    assert content["models"][0]["name"] == "second"
    assert content["nodes"][0]["name"] == "car"


def test_an_unknown_class_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match="did you mean 'puppy'"):
        _selection().explain("pupy")
