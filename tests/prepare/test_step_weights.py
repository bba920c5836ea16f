"""What steps weigh in an average, by numbers that can be checked in the head."""

from __future__ import annotations

import itertools
import math

import pytest

from smelt.errors import RecipeError
from smelt.prepare.step_weights import step_weights

R2, R3 = math.sqrt(2), math.sqrt(3)


@pytest.mark.parametrize(
    ("weighting", "count", "expected"),
    [
        ("uniform", 4, [1 / 4] * 4),
        ("linear", 4, [0.1, 0.2, 0.3, 0.4]),
        ("wsm-linear", 4, [1 / 4] * 4),  # a linear decay is a uniform mean
        ("wsm-1-sqrt", 4, [1 / 2, (R2 - 1) / 2, (R3 - R2) / 2, (2 - R3) / 2]),
        ("wsm-cosine", 4, [(1 - R2 / 2) / 2, R2 / 4, R2 / 4, (1 - R2 / 2) / 2]),
        ("wsm-cosine", 2, [1 / 2, 1 / 2]),
    ],
)
def test_weights_by_hand(weighting: str, count: int, expected: list[float]) -> None:
    assert step_weights(weighting, count) == pytest.approx(expected)
    assert sum(step_weights(weighting, count)) == pytest.approx(1)


def test_exponential_is_a_decay_from_step_to_step() -> None:
    assert step_weights("exponential", 3, 0.5) == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert step_weights("ema", 3, 0.5) == step_weights("exponential", 3, 0.5)


def test_an_average_by_wsm_does_what_the_decay_would_have_done_to_the_updates() -> None:
    # Four steps with updates 1, 10 and 100 between them: 0, 1, 11, 111. The decay scales the updates by D(i / 4).
    steps = list(itertools.accumulate([0.0, 1.0, 10.0, 100.0]))
    weights = step_weights("wsm-1-sqrt", 4)
    averaged = sum(w * step for w, step in zip(weights, steps, strict=True))
    decayed = sum((1 - math.sqrt(i / 4)) * update for i, update in ((1, 1.0), (2, 10.0), (3, 100.0)))
    assert averaged == pytest.approx(decayed)


def test_wrong_words_are_refused() -> None:
    with pytest.raises(RecipeError, match="did you mean 'wsm-cosine'"):
        step_weights("wsm-cos", 3)
    with pytest.raises(RecipeError, match="decay: 1 is not between 0 and 1"):
        step_weights("exponential", 3, 1)
