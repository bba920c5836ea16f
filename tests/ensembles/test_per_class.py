from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pico_clip import PROCESSOR, TEMPLATES, colour_clip, random_clip, save_clip, write_task
from smelt.ensembles.per_class import PerClass, entropies, per_class_scores
from smelt.errors import IncompatibleModels, RecipeError
from smelt.evaluation.evaluate import evaluate_model
from smelt.models.families.load import load
from smelt.models.families.preprocess import Preprocess

PREPROCESS = Preprocess.parse(PROCESSOR)
FIRST, SECOND = (0.30, 0.25, 0.20), (0.20, 0.28, 0.27)
CLASSES = ("a", "b", "c")
PICTURES = np.zeros((1, 8, 8, 3), dtype=np.uint8)
ALL = np.ones((2, 3), dtype=bool)


@dataclass
class Cosines:
    """A classifier whose cosines are given; its own scale is 2."""

    label: str
    cosines: tuple[float, ...]
    preprocess: Preprocess = PREPROCESS
    device: str = "cpu"
    dtype: str = "float32"
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def hash(self) -> str:
        return f"{self.cosines}"

    def head(self, classes: Any, templates: Any) -> torch.Tensor:
        return torch.eye(len(classes), dtype=torch.float64)

    def features(self, pictures: Any) -> torch.Tensor:
        self.shapes.append(pictures.shape)
        return torch.tensor([self.cosines] * len(pictures), dtype=torch.float64)

    def logits(self, pictures: Any, head: torch.Tensor) -> torch.Tensor:
        return 2 * self.features(pictures) @ head.T


def _softmax(cosines: Any, scale: float) -> np.ndarray:
    raised = np.exp(scale * np.asarray(cosines))
    return raised / raised.sum(axis=-1, keepdims=True)


def _two(scale: float = 100.0) -> np.ndarray:
    return _softmax([[FIRST], [SECOND]], scale)


def _scores(model: PerClass) -> np.ndarray:
    return np.exp(model.logits(PICTURES, model.head(CLASSES, TEMPLATES)).numpy())


def test_the_entropies_of_m6() -> None:
    assert entropies(_two())[:, 0] == pytest.approx([0.040674, 0.584344], abs=5e-7)
    assert entropies(_two(1.0))[:, 0] == pytest.approx([1.097779, 1.097989], abs=5e-7)


def test_the_uncertain_model_weighs_more_in_m6() -> None:
    (scores,) = per_class_scores(_two(), ALL)
    assert scores == pytest.approx([0.064867, 0.683752, 0.251381], abs=5e-7)
    assert scores.argmax() == 1


def test_the_certain_model_weighs_more_with_inverse_entropy_in_m6() -> None:
    (scores,) = per_class_scores(_two(), ALL, "inverse_entropy")
    assert scores == pytest.approx([0.92864, 0.05382, 0.01754], abs=5e-6)
    assert scores.argmax() == 0


def test_the_weights_of_m6_at_both_scales() -> None:
    for scale, weights, digits in ((100.0, (0.065077, 0.934923), 5e-7), (1.0, (0.49995, 0.50005), 5e-6)):
        both = _two(scale)
        (scores,) = per_class_scores(both, ALL)
        assert scores == pytest.approx(np.tensordot(weights, both[:, 0], 1), abs=digits)


def test_uniform_weights_are_the_mean() -> None:
    assert per_class_scores(_two(), ALL, "uniform") == pytest.approx(_two().mean(axis=0))


def test_the_base_of_the_logarithm_leaves_the_scores_unchanged() -> None:
    both = _two()
    bits = entropies(both) / np.log(2)
    weights = bits / bits.sum(axis=0)
    assert per_class_scores(both, ALL) == pytest.approx((weights[..., None] * both).sum(axis=0))


@pytest.mark.parametrize("weights", ["entropy", "inverse_entropy", "uniform"])
def test_one_model_per_class_gives_its_probability(weights: Any) -> None:
    asked = np.array([[True, False, True], [False, True, False]])
    both = _two()
    assert per_class_scores(both, asked, weights)[0] == pytest.approx([both[0, 0, 0], both[1, 0, 1], both[0, 0, 2]])


def test_the_same_model_for_all_classes_answers_as_that_model() -> None:
    draw = np.random.default_rng(0)
    both = _softmax(draw.normal(size=(2, 200, 3)), 5.0)
    asked = np.array([[False] * 3, [True] * 3])
    assert per_class_scores(both, asked).argmax(axis=1).tolist() == both[1].argmax(axis=1).tolist()


@pytest.mark.parametrize("weights", ["entropy", "inverse_entropy", "uniform"])
def test_two_copies_of_a_model_equal_one(weights: Any) -> None:
    one = _softmax(np.random.default_rng(1).normal(size=(1, 50, 3)), 5.0)
    twice = per_class_scores(np.concatenate([one, one]), ALL, weights)
    assert twice == pytest.approx(per_class_scores(one, ALL[:1], weights), abs=1e-12)


@pytest.mark.parametrize("weights", ["entropy", "inverse_entropy"])
def test_models_that_are_all_certain_weigh_alike(weights: Any) -> None:
    certain = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    assert per_class_scores(certain, ALL, weights).tolist() == [[0.5, 0.5, 0.0]]


def test_a_model_that_no_class_asks_changes_nothing() -> None:
    three = np.concatenate([_two(), _softmax([[[1.0, 0.0, 0.0]]], 9.0)])
    asked = np.concatenate([ALL, np.zeros((1, 3), dtype=bool)])
    assert per_class_scores(three, asked).tolist() == per_class_scores(_two(), ALL).tolist()


def test_a_class_without_a_model_is_refused() -> None:
    with pytest.raises(RecipeError, match="class number 1"):
        per_class_scores(_two(), np.array([[True, False, True], [True, False, False]]))
    with pytest.raises(RecipeError, match=r"got \(3, 2\)"):
        per_class_scores(_two(), ALL.T)
    with pytest.raises(RecipeError, match="did you mean 'entropy'"):
        per_class_scores(_two(), ALL, "entropi")  # type: ignore[arg-type]


def test_a_predictor_of_two_models_gives_the_scores_of_m6_and_runs_each_once() -> None:
    members = {"x": Cosines("x", FIRST), "y": Cosines("y", SECOND)}
    model = PerClass(members, [("x", "y")] * 3)
    assert _scores(model)[0] == pytest.approx([0.064867, 0.683752, 0.251381], abs=5e-7)
    assert [len(member.shapes) for member in members.values()] == [1, 1]


def test_the_scale_is_a_number_or_the_models_own() -> None:
    members = {"x": Cosines("x", FIRST)}
    assert _scores(PerClass(members, ["x"] * 3, scale=1.0))[0] == pytest.approx(_softmax(FIRST, 1.0))
    assert _scores(PerClass(members, ["x"] * 3, scale="own"))[0] == pytest.approx(_softmax(FIRST, 2.0))


def test_models_that_no_class_names_are_left_out_and_the_hash_tells_choices_apart() -> None:
    members = {"x": Cosines("x", FIRST), "y": Cosines("y", SECOND)}
    only = PerClass(members, [("x",)] * 3)
    assert list(only.members) == ["x"]
    others = [
        PerClass(members, [("x",), ("y",), ("x",)]),
        PerClass(members, [("y",), ("x",), ("x",)]),
        PerClass(members, [("x",)] * 3, "uniform"),
        PerClass(members, [("x",)] * 3, scale=1.0),
    ]
    assert len({model.hash for model in [only, *others]}) == 5
    assert only.hash == PerClass({"x": Cosines("x", FIRST)}, [("x", "x")] * 3).hash


def test_members_that_prepare_pictures_differently_take_raw_pictures() -> None:
    small = replace(PREPROCESS, resize=4, crop=(4, 4))
    members = {"x": Cosines("x", FIRST), "y": Cosines("y", SECOND, small)}
    model = PerClass(members, [("x", "y")] * 3)
    raw = [np.full((8, 10, 3), shade, dtype=np.uint8) for shade in (0, 90, 200)]
    scores = model.scores_of(raw, CLASSES, batch=2)
    assert scores == pytest.approx(np.array([[0.064867, 0.683752, 0.251381]] * 3), abs=5e-7)
    assert members["x"].shapes == [(2, 8, 8, 3), (1, 8, 8, 3)]
    assert members["y"].shapes == [(2, 4, 4, 3), (1, 4, 4, 3)]
    with pytest.raises(IncompatibleModels, match="raw pictures to scores_of"):
        _ = model.preprocess
    assert model.scores_of([], CLASSES).shape == (0, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"chosen": [("x",), ("z",)]}, "no model named 'z'"),
        ({"chosen": [("x",), ()]}, "at least one model"),
        ({"chosen": []}, "at least one model"),
        ({"chosen": [("x",)], "weights": "even"}, "no way of weighing"),
        ({"chosen": [("x",)], "scale": 0.0}, "above 0"),
        ({"chosen": [("x",)], "scale": "theirs"}, "above 0"),
    ],
)
def test_a_wrong_request_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        PerClass({"x": Cosines("x", FIRST)}, **words)


def test_a_task_with_other_classes_is_refused() -> None:
    model = PerClass({"x": Cosines("x", FIRST)}, [("x",)] * 2)
    with pytest.raises(RecipeError, match="2 classes, but the task has 3"):
        model.logits(PICTURES, model.head(CLASSES, TEMPLATES))


def test_a_member_without_cosines_needs_its_own_scale() -> None:
    inner = PerClass({"x": Cosines("x", FIRST)}, [("x",)] * 3)
    with pytest.raises(RecipeError, match="scale: own"):
        _scores(PerClass({"in": inner}, [("in",)] * 3))
    assert _scores(PerClass({"in": inner}, [("in",)] * 3, scale="own"))[0] == pytest.approx(_softmax(FIRST, 100.0))


def test_a_per_class_predictor_is_evaluated_like_any_model(tmp_path: Path) -> None:
    task = write_task(tmp_path / "colours")
    members = {
        "knows": load(str(save_clip(colour_clip(), tmp_path / "knows")), "classifier"),
        "guesses": load(str(save_clip(random_clip(3), tmp_path / "guesses")), "classifier"),
    }
    (good,) = evaluate_model(PerClass(members, [("knows",)] * 3), task).results
    assert good.accuracy == 1.0
    (alone,) = evaluate_model(members["guesses"], task).results
    (same,) = evaluate_model(PerClass(members, [("guesses",)] * 3), task).results
    assert same.confusion.tolist() == alone.confusion.tolist()
    (own,) = evaluate_model(PerClass(members, [("guesses",)] * 3, scale="own"), task).results
    assert own.loss == pytest.approx(alone.loss, rel=1e-5)
