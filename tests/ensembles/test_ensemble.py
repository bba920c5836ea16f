from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import smelt
from pico_clip import PROCESSOR, TEMPLATES, colour_clip, random_clip, save_clip, write_task
from smelt.ensembles.ensemble import ensemble
from smelt.ensembles.scores import Ensemble, MaxModel
from smelt.errors import IncompatibleModels, RecipeError
from smelt.models.families.load import load
from smelt.models.families.preprocess import Preprocess
from smelt.prepare.evaluate import evaluate

PREPROCESS = Preprocess.parse(PROCESSOR)


@dataclass
class Fixed:
    """A classifier that always says the same; its head is as wide as it is told."""

    label: str
    scores: tuple[float, ...]
    width: int = 2
    preprocess: Preprocess = PREPROCESS
    device: str = "cpu"
    dtype: str = "float32"
    asked: int = 0

    @property
    def hash(self) -> str:
        return f"{self.scores}"

    def head(self, classes: Any, templates: Any) -> torch.Tensor:
        return torch.full((len(self.scores), self.width), float(self.width))

    def logits(self, pictures: Any, head: torch.Tensor) -> torch.Tensor:
        self.asked += 1
        assert head.shape == (len(self.scores), self.width)
        return torch.tensor([self.scores] * len(pictures))


PICTURES = np.zeros((1, 8, 8, 3), dtype=np.uint8)


def _answer(model: Any) -> list[float]:
    (row,) = model.logits(PICTURES, model.head(("a", "b"), TEMPLATES)).tolist()
    return list(row)


def _two() -> dict[str, Any]:
    return {"x": Fixed("x", (1.0, 4.0)), "y": Fixed("y", (3.0, -2.0))}


def test_the_mean_of_logits() -> None:
    assert _answer(Ensemble(_two())) == [2.0, 1.0]


def test_weights_are_divided_by_their_sum() -> None:
    """3/4 · 1 + 1/4 · 3 = 1.5 and 3/4 · 4 - 1/4 · 2 = 2.5."""
    assert _answer(Ensemble(_two(), [3, 1])) == [1.5, 2.5]
    assert _answer(Ensemble(_two(), {"y": 1, "x": 3})) == [1.5, 2.5]


def test_the_mean_of_probabilities_is_given_as_logarithms() -> None:
    members = {"x": Fixed("x", (0.0, math.log(3))), "y": Fixed("y", (math.log(9), 0.0))}
    assert _answer(Ensemble(members, on="probabilities")) == pytest.approx([math.log(0.575), math.log(0.425)])
    assert _answer(Ensemble(members, [1, 0], on="probabilities")) == pytest.approx([math.log(0.25), math.log(0.75)])


def test_the_largest_score_of_each_class() -> None:
    assert _answer(MaxModel(_two())) == [3.0, 4.0]


@pytest.mark.parametrize("kind", [Ensemble, MaxModel])
def test_each_member_is_asked_once(kind: Any) -> None:
    members = _two()
    _answer(kind(members))
    assert [member.asked for member in members.values()] == [1, 1]


def test_heads_of_different_widths_reach_their_members() -> None:
    assert _answer(MaxModel([Fixed("x", (1.0, 4.0), width=2), Fixed("y", (3.0, -2.0), width=5)])) == [3.0, 4.0]


def test_its_hash_is_that_of_the_members_and_of_how_they_agree() -> None:
    two, renamed = _two(), dict(zip("ab", _two().values(), strict=True))
    kinds = [Ensemble(two), Ensemble(two, [1, 2]), Ensemble(two, on="probabilities"), MaxModel(two)]
    assert len({one.hash for one in kinds}) == 4
    assert Ensemble(renamed).hash == Ensemble(two).hash
    assert Ensemble(two).label == "mean of x, y"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], "one for each of the 2 models is needed, got 1"),
        ([1, -1], "numbers from 0 on that are not all 0"),
        ([0, 0], "numbers from 0 on that are not all 0"),
        ({"x": 1}, "no value for 'y'"),
        ({"x": 1, "z": 1}, "no model named 'z'"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Ensemble(_two(), weights)


def test_members_that_cannot_be_asked_together_are_refused() -> None:
    other = Fixed("y", (1.0, 2.0), preprocess=replace(PREPROCESS, resample=2), dtype="bfloat16")
    with pytest.raises(IncompatibleModels) as error:
        MaxModel({"x": Fixed("x", (1.0, 2.0)), "y": other})
    assert "y prepares pictures otherwise than x" in str(error.value)
    assert "y computes with dtype bfloat16, but x with float32" in str(error.value)
    with pytest.raises(RecipeError, match="at least one model"):
        Ensemble([])


def test_words_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(RecipeError, match="has no weights"):
        ensemble(_two(), kind="max", weights=[1, 2])
    with pytest.raises(RecipeError, match="the mean or the max of its members' scores, got 'median'"):
        ensemble(_two(), kind="median")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="logits or of probabilities, got 'scores'"):
        ensemble(_two(), on="scores")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="models are a table"):
        ensemble("x")


def test_real_models_are_loaded_by_reference_and_evaluated(tmp_path: Path) -> None:
    task = write_task(tmp_path / "colours")
    knows, guesses = save_clip(colour_clip(), tmp_path / "knows"), save_clip(random_clip(), tmp_path / "guesses")
    together = smelt.ensemble([str(knows), str(guesses)], weights=[1, 0])
    (row,), (alone,) = evaluate(together, task), evaluate(knows, task)
    assert (row.accuracy, row.label) == (
        alone.accuracy,
        "mean of knows, guesses",
    ) or row.accuracy == alone.accuracy == 1.0
    assert row.loss == pytest.approx(alone.loss, abs=1e-6)
    assert row.model_hash == together.hash


def test_an_ensemble_of_copies_is_the_model(tmp_path: Path) -> None:
    model = load(save_clip(random_clip(), tmp_path / "model"), "classifier")
    pictures = np.random.default_rng(0).integers(0, 255, (5, 8, 8, 3), dtype=np.uint8)
    classes = ("red", "green", "blue")
    alone = model.logits(pictures, model.head(classes, TEMPLATES))
    for together in (Ensemble([model, model]), MaxModel([model, model])):
        found = together.logits(pictures, together.head(classes, TEMPLATES))
        torch.testing.assert_close(found, alone, rtol=1e-6, atol=1e-6)
