from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from smelt.errors import RecipeError
from smelt.hub.matching.captions import Gloss
from smelt.hub.selection.lovm import (
    FEATURES,
    Linear,
    TaskTexts,
    TextScores,
    leave_one_out,
    model_scores,
    task_texts,
    text_scores,
)
from smelt.hub.selection.rankings import absolute_error, kendall_tau, signed_error, top_overlap

WEIGHTS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
ROWS = {
    "own 0": (1.0, 0.0),
    "near 0": (0.6, 0.8),  # nearest to the third class: cosines .6, .8, .96
    "own 1": (0.0, 1.0),
    "own 2": (0.8, 0.6),
    "syn": (0.6, 0.8),
}
TEXTS = TaskTexts((("own 0", "near 0"), ("own 1",), ("own 2",)), (("syn",), ("own 1",), ("own 2", "syn")))


def _features(lines: Sequence[str]) -> np.ndarray:
    return np.array([ROWS[line] for line in lines])


def test_the_features_of_three_classes_by_hand() -> None:
    found = text_scores(WEIGHTS, _features, TEXTS, noise=0.0, in_score=0.4)
    assert found.text_acc1 == 3 / 4
    # F1: class 0 has one of two right, none wrong: 2/3; class 1 is perfect; class 2 one right, one wrong: 2/3.
    assert found.text_f1 == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)
    # The largest cosine to another class: 0 and 2 have .8 with each other, 1 has .6 with 2.
    assert found.intraclass_sim == pytest.approx((0.8 + 0.6 + 0.8) / 3)
    assert found.inter_close == pytest.approx((1 + 0.6 + 1 + 1) / 4)
    # Mean cosines of captions to other classes: class 0 to 2: (.8 + .96) / 2; class 1 to 2: .6; class 2 to 0: .8.
    assert found.intra_close == pytest.approx((0.88 + 0.6 + 0.8) / 3)
    assert found.superclass_metric == pytest.approx((0.6 + 1 + 1 + 0.96) / 4)
    assert found.in_score == 0.4
    assert dict(zip(FEATURES, found.values(), strict=True))["in_score"] == 0.4


def test_noise_belongs_to_its_place() -> None:
    lines = [f"{number}" for number in range(40)]
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(40, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def features(asked: Sequence[str]) -> np.ndarray:
        return vectors[[int(line) for line in asked]]

    def score(seed: int, captions: Any) -> TextScores:
        return text_scores(vectors[:4], features, TaskTexts(captions, (("0",),) * 4), noise=0.5, seed=seed)

    parts = tuple(tuple(lines[10 * number : 10 * number + 10]) for number in range(4))
    assert score(0, parts) == score(0, parts)
    assert len({score(seed, parts).text_acc1 for seed in range(8)}) > 1
    assert score(0, parts).inter_close == score(1, parts).inter_close


def test_one_class_has_no_other() -> None:
    found = text_scores(WEIGHTS[:1], _features, TaskTexts((("own 0",),), (("own 0",),)), noise=0.0)
    assert (found.text_acc1, found.text_f1, found.intraclass_sim, found.intra_close) == (1.0, 1.0, 0.0, 0.0)


def test_classes_without_captions_are_refused() -> None:
    with pytest.raises(RecipeError, match="3 classes; each needs captions"):
        text_scores(WEIGHTS, _features, TaskTexts((("own 0",), (), ("own 2",)), TEXTS.synonyms))
    with pytest.raises(RecipeError, match="3 classes"):
        text_scores(WEIGHTS, _features, TaskTexts(TEXTS.captions[:2], TEXTS.synonyms[:2]))


def test_texts_of_a_task_come_from_names_and_glosses() -> None:
    known = {"dog": Gloss("a tame wolf", ("Dog", "domestic_dog"))}
    found = task_texts(["dog", "zzz"], known.get, domain="photo", task="sorting")
    assert [len(one) for one in found.captions] == [8, 8]
    assert found.synonyms == (("domestic dog",), ("zzz",))


def test_a_loaded_model_is_judged_by_its_text_features() -> None:
    model: Any = SimpleNamespace(
        label="toy",
        head=lambda classes, templates: torch.tensor(WEIGHTS),
        text_features=lambda lines: torch.tensor(_features(lines)),
    )
    assert model_scores(model, ("a", "b", "c"), TEXTS, in_score=0.4) == text_scores(
        WEIGHTS, _features, TEXTS, in_score=0.4
    )
    del model.text_features
    with pytest.raises(RecipeError, match="toy gives no features of texts"):
        model_scores(model, ("a", "b", "c"), TEXTS)


def test_least_squares_finds_the_line() -> None:
    rows = [[1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [3.0, 5.0]]
    found = Linear.fit(rows, [0.5 + 2 * a - b for a, b in rows])
    assert found.intercept == pytest.approx(0.5)
    assert found.coefficients == pytest.approx([2.0, -1.0])
    assert found.predict({"x": [10.0, 1.0]}) == {"x": pytest.approx(19.5)}


def test_features_that_say_nothing_predict_the_mean() -> None:
    found = Linear.fit([[1.0], [1.0], [1.0]], [0.2, 0.4, 0.9])
    assert found.predict({"x": [1.0]})["x"] == pytest.approx(0.5)
    with pytest.raises(RecipeError, match="a row of features for each target"):
        Linear.fit([[1.0]], [0.2, 0.4])


SCORES = {
    "easy": {"a": [0.1], "b": [0.2], "c": [0.3]},
    "hard": {"a": [0.3], "b": [0.1], "c": [0.2]},
    "odd": {"a": [0.2], "b": [0.3], "c": [0.1]},
}
# Accuracy is a constant of the task plus twice the feature.
ACCURACIES = {
    task: {model: base + 2 * rows[model][0] for model in rows}
    for (task, rows), base in zip(SCORES.items(), (0.3, 0.0, 0.1), strict=True)
}


def test_a_task_is_predicted_from_the_others_up_to_its_mean() -> None:
    found = leave_one_out(SCORES, ACCURACIES)
    for task, models in found.items():
        mean = sum(ACCURACIES[task].values()) / 3
        assert models == pytest.approx({model: value - mean for model, value in ACCURACIES[task].items()})


def test_the_left_out_tasks_truth_is_not_used() -> None:
    lie = {**ACCURACIES, "odd": {"a": 0.9, "b": 0.1, "c": 0.5}}
    assert leave_one_out(SCORES, lie)["odd"] == leave_one_out(SCORES, ACCURACIES)["odd"]
    assert leave_one_out(SCORES, lie)["easy"] != leave_one_out(SCORES, ACCURACIES)["easy"]
    with pytest.raises(RecipeError, match="at least two tasks"):
        leave_one_out({"easy": SCORES["easy"]}, ACCURACIES)


def test_accuracies_themselves_are_predicted_where_that_is_asked() -> None:
    level = {task: {model: 0.1 + 2 * rows[model][0] for model in rows} for task, rows in SCORES.items()}
    assert leave_one_out(SCORES, level, centred=False)["odd"] == pytest.approx(level["odd"])


TRUE = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "f": 0.4, "g": 0.3}


def test_overlap_counts_the_true_best_five_that_were_found() -> None:
    assert top_overlap(TRUE, TRUE) == 1.0
    assert top_overlap({**TRUE, "a": 0.0, "b": 0.1}, TRUE) == 3 / 5
    assert top_overlap({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}, k=1) == 0.0


def test_tau_is_of_the_models_in_both_best_fives() -> None:
    assert kendall_tau(TRUE, TRUE) == 1.0
    assert kendall_tau({**TRUE, "a": 0.65}, TRUE) == pytest.approx((8 - 2) / 10)  # a falls behind b and c
    # c, d, e are common and their order is turned round: -1; with two common models only: 0.
    assert kendall_tau({"a": 0, "b": 0.1, "c": 0.5, "d": 0.6, "e": 0.7, "f": 0.9, "g": 0.8}, TRUE) == -1.0
    assert kendall_tau({"a": 3.0, "b": 2.0, "c": 1.0}, {"a": 2.0, "b": 3.0, "c": 1.0}, k=2) == 0.0


def test_errors_with_and_without_sign() -> None:
    off = {**TRUE, "a": 1.0, "b": 0.7}
    assert signed_error(off, TRUE) == pytest.approx(0.0)
    assert absolute_error(off, TRUE) == pytest.approx(0.2 / 7)


def test_rankings_of_different_models_are_not_compared() -> None:
    with pytest.raises(RecipeError, match=r"only one side has \['g'\]"):
        absolute_error({name: TRUE[name] for name in "abcdef"}, TRUE)
