"""Values that vary: over depth, by name, by model; numbers a reader can check by hand."""

import pytest

from smelt.methods import stages
from smelt.recipe.patterns import matches
from smelt.recipe.pipeline import Spot, check, constant, normalized, patterns_in, resolve

WEIGHTS = stages["average"].parameters["weights"]  # one per model
SCALE = stages["task_arithmetic"].parameters["scale"]  # one for all
MODELS = ["cars", "birds"]


def at(value, depth=0.0, name="layers.0.mlp.weight", inside=True, parameter=SCALE):
    return resolve(parameter, normalized(parameter, value, MODELS), Spot(name, depth, inside), MODELS)


def test_one_number_is_the_same_everywhere():
    assert at(0.5, 0.0) == at(0.5, 1.0) == 0.5


@pytest.mark.parametrize(("depth", "value"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.75, 0.75), (1.0, 0.5)])
def test_depth_interpolates_between_the_points(depth, value):
    assert at({"depth": [0.0, 1.0, 0.5]}, depth) == pytest.approx(value)


def test_a_bare_list_is_short_for_depth():
    assert at([0, 10], 0.3) == pytest.approx(3.0)
    assert at([7], 0.3) == 7


def test_outside_the_blocks_another_value_may_hold():
    value = {"depth": [1, 2], "outside": 9}
    assert at(value, 0.0, inside=False) == 9
    assert at(value, 1.0, inside=True) == 2
    assert at({"depth": [1, 2]}, 1.0, inside=False) == 2


def test_the_first_filter_that_matches_wins():
    value = [{"filter": "*.mlp.*", "value": 0.3}, {"filter": "layers.*", "value": 0.6}, {"value": 1}]
    assert at(value, name="layers.0.mlp.weight") == 0.3
    assert at(value, name="layers.0.attn.weight") == 0.6
    assert at(value, name="head.weight") == 1


def test_a_filters_value_may_vary_over_depth():
    value = [{"filter": "*.mlp.*", "value": [0, 1]}, {"value": {"depth": [5, 7]}}]
    assert at(value, 0.5, "layers.3.mlp.w") == 0.5
    assert at(value, 0.5, "layers.3.attn.w") == 6


def test_one_value_for_all_models_or_one_each():
    assert at(0.5, parameter=WEIGHTS) == [0.5, 0.5]
    assert at([1, 2], parameter=WEIGHTS) == [1, 2]
    assert at({"birds": 2, "cars": 1}, parameter=WEIGHTS) == [1, 2]


def test_a_models_value_may_vary_over_depth_and_by_name():
    value = {"cars": {"depth": [0, 1]}, "birds": [{"filter": "*mlp*", "value": 3}, {"value": 4}]}
    assert at(value, 0.5, parameter=WEIGHTS) == [0.5, 3]
    assert at(value, 0.5, "head", parameter=WEIGHTS) == [0.5, 4]
    assert at({"depth": [0, 2]}, 0.5, parameter=WEIGHTS) == [1, 1]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("head.*", "head.weight", True),
        ("head.*", "lm_head.weight", False),
        ("*head.*", "lm_head.weight", True),
        ("layers.?.w", "layers.1.w", True),
        ("layers.?.w", "layers.12.w", False),
        ("layers.[01].w", "layers.1.w", True),
        ("layers.1.w", "layers.1.w", True),
        ("layers.1", "layers.1.w", False),
    ],
)
def test_patterns_match_whole_names(pattern, name, fits):
    assert matches(pattern, name) is fits


def test_constant_values_are_known():
    assert all(map(constant, [0.5, {"cars": 1, "birds": 2}, "mean", True]))
    assert not any(map(constant, [{"depth": [1, 2]}, [1, 2], [{"value": 1}], {"cars": {"depth": [0, 1]}, "birds": 1}]))


def test_every_filter_is_found_wherever_it_stands():
    value = {
        "cars": [{"filter": "a", "value": 1}, {"value": 2}],
        "birds": [{"filter": "b", "value": [1, 2]}, {"value": 0}],
    }
    assert list(patterns_in(value)) == ["a", "b"]


def faults(method, **given):
    return check(stages[method], given, MODELS)


def test_good_parameters_have_no_faults():
    assert faults("ties", density=0.2, weights={"cars": 1, "birds": 2}) == []
    assert faults("average", weights={"cars": 1, "birds": {"depth": [0, 1]}}) == []


def test_all_faults_are_listed():
    assert len(faults("ties", density=2, weights=[1], densty=1)) == 3


@pytest.mark.parametrize(
    "value",
    [
        {"depth": []}, {"depth": ["x"]}, {"depth": [True, 1]}, {"depth": [1], "extra": 2}, {"depth": 1},
        {"depth": None},
        [{"filter": "a", "value": 1}], [{"filter": "a"}, {"value": 1}], [[1, 2], [3]], "x", None, {}, {"outside": 3},
        [{"filter": None, "value": 1}, {"value": 1}], [{"filter": 3, "value": 1}, {"value": 1}],
    ],
)  # fmt: skip
def test_malformed_values_are_faults(value):
    assert faults("task_arithmetic", scale=value)


def test_a_list_of_filters_needs_a_value_for_all_other_tensors():
    (fault,) = faults("task_arithmetic", scale=[{"filter": "a", "value": 1}])
    assert "last entry" in fault
