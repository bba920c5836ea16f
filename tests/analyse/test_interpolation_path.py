"""The line between two models, and the barrier on it."""

import pytest
import torch

from analysed_by_hand import scored, tensors
from checkpoints import state as checkpoint
from checkpoints import write_model
from smelt.analyse import interpolation_path
from smelt.errors import RecipeError

A, B = tensors(w=[0, 0]), tensors(w=[4, 8])


def first_weight(state):
    return float(state["w"][0])


def test_models_on_the_line_are_weighted_means():
    seen = []
    interpolation_path(A, B, 5, evaluate=lambda state: seen.append(state["w"].tolist()) or scored(first_weight)(state))
    assert seen == [[0, 0], [1, 2], [2, 4], [3, 6], [4, 8]]


def test_the_barrier_is_the_highest_rise_above_the_line_of_the_ends():
    """Loss at weights 0 1 2 3 4 is 1 3 2 5 3; the line of the ends is 1 1.5 2 2.5 3; so it rises by 0 1.5 0 2.5 0."""
    losses = dict(zip(range(5), (1.0, 3.0, 2.0, 5.0, 3.0), strict=True))
    found = interpolation_path(A, B, 5, evaluate=scored(lambda state: losses[int(first_weight(state))]))
    assert vars(found.barriers["photos"]) == {"loss": 2.5, "t": 0.75}
    assert found.to_json()["loss"] == [1, 3, 2, 5, 3]


def test_a_path_that_sinks_has_no_barrier():
    found = interpolation_path(A, B, 5, evaluate=scored(lambda state: abs(first_weight(state) - 2)))
    assert vars(found.mean_barrier) == {"loss": 0.0, "t": 0.0}


def test_the_mean_barrier_is_that_of_the_mean_loss():
    """Two tasks that peak at different places: each rises by 1, their mean by a half."""

    def run(state):
        at = first_weight(state)
        return [
            *scored(lambda _: float(at == 1), "photos")(state),
            *scored(lambda _: float(at == 3), "digits")(state),
        ]

    found = interpolation_path(A, B, 5, evaluate=run)
    assert {task: vars(barrier) for task, barrier in found.barriers.items()} == {
        "photos": {"loss": 1.0, "t": 0.25},
        "digits": {"loss": 1.0, "t": 0.75},
    }
    assert vars(found.mean_barrier) == {"loss": 0.5, "t": 0.25}


def test_rows_say_where_on_the_path_they_are():
    found = interpolation_path(A, B, 3, names=("cars", "birds"), evaluate=scored(first_weight))
    assert [row.setting for row in found.rows] == [{"from": "cars", "to": "birds", "t": t} for t in (0.0, 0.5, 1.0)]
    assert {(row.variant, row.entry, row.label) for row in found.rows} == {("path", "cars..birds", "cars to birds")}


def test_points_may_be_given_and_get_their_ends():
    found = interpolation_path(A, B, [0.5, 0.25], evaluate=scored(first_weight))
    assert [row.loss for row in found.rows] == [0, 1, 2, 4]
    with pytest.raises(RecipeError, match="from 0 to 1"):
        interpolation_path(A, B, [1.5], evaluate=scored(first_weight))
    with pytest.raises(RecipeError, match="at least its two ends"):
        interpolation_path(A, B, 1, evaluate=scored(first_weight))


def test_what_is_not_interpolated_is_the_first_models():
    a = {**tensors(w=[0.0], text=[1.0], extra=[7.0]), "ids": torch.tensor([3])}
    b = {**tensors(w=[2.0], text=[5.0]), "ids": torch.tensor([9])}
    seen = []

    def run(state):
        seen.append(state)
        return scored(first_weight)(state)

    found = interpolation_path(a, b, 2, skip="text", evaluate=run)
    last = {name: tensor.tolist() for name, tensor in seen[-1].items()}
    assert last == {"w": [2.0], "text": [1.0], "extra": [7.0], "ids": [3]}
    assert found.notes == ("1 tensors that second lacks stay those of first",)
    with pytest.raises(RecipeError, match="second has 'extra', which first lacks"):
        interpolation_path(b, a, 2, evaluate=run)


def test_half_precision_is_kept_and_the_ends_are_the_models_themselves():
    a, b = {"w": torch.tensor([0.1]).bfloat16()}, {"w": torch.tensor([0.7]).bfloat16()}
    seen = []
    interpolation_path(a, b, 3, evaluate=lambda state: seen.append(state["w"]) or scored(first_weight)(state))
    assert (seen[0].dtype, torch.equal(seen[0], a["w"]), torch.equal(seen[-1], b["w"])) == (torch.bfloat16, True, True)


def test_folders_are_named_after_themselves_even_a_base(tmp_path):
    base, cars = (write_model(tmp_path / name, checkpoint(value)) for name, value in (("base", 0.0), ("cars", 1.0)))
    run = scored(lambda state: float(state["embed.weight"][0, 0]))
    found = interpolation_path(base, f"dir:{cars}", 3, evaluate=run)
    assert (found.first, found.second, [row.loss for row in found.rows]) == ("base", "cars", [0, 0.5, 1])
    with pytest.raises(RecipeError, match="two models"):
        interpolation_path(cars, cars, 3, evaluate=run)
