import pytest
import torch
from torch.testing import assert_close

import smelt
from smelt.errors import NumericalError, RecipeError

CARS, BIRDS = [[1.0, 0.0], [2.0, 2.0]], [[0.0, 1.0], [4.0, 6.0]]


def merged(first, second, **parameters):
    """Two layers of two inputs and two outputs, and a bias, merged with the Gram matrix given for each."""
    models = {
        "cars": {"w": torch.tensor(CARS), "b": torch.tensor([1.0, 2.0])},
        "birds": {"w": torch.tensor(BIRDS), "b": torch.tensor([3.0, 6.0])},
    }
    grams = {"cars": {"w": torch.tensor(first)}, "birds": {"w": torch.tensor(second)}}
    return smelt.merge(models, method="regmean", statistics=grams, **parameters)


def test_two_inputs_by_hand():
    """Cars saw the first input thrice as large: (3*1 + 1*0) / 4, (3*2 + 1*4) / 4; the second is shared evenly."""
    got = merged([[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], reduction=1.0, ridge=0.0)
    assert_close(got["w"], torch.tensor([[0.75, 0.5], [2.5, 4.0]]))


def test_off_diagonals_are_reduced():
    """First row: W1 G1 = (2, r) and W2 G2 = (-r, 2) over a sum of 4 on the diagonal."""
    grams = [[2.0, 1.0], [1.0, 2.0]], [[2.0, -1.0], [-1.0, 2.0]]
    assert_close(merged(*grams, reduction=0.5, ridge=0.0)["w"][0], torch.tensor([0.375, 0.625]))
    assert_close(merged(*grams)["w"][0], torch.tensor([(2 - 0.95) / 4, (2 + 0.95) / 4]), rtol=1e-5, atol=0)


def test_a_linear_model_answers_as_least_squares_on_the_pooled_data():
    draw = torch.Generator().manual_seed(3)
    weights = {name: torch.randn(2, 3, generator=draw) for name in ("cars", "birds", "dogs")}
    inputs = {name: torch.randn(7, 3, generator=draw) for name in weights}
    answers = torch.cat([inputs[name] @ weights[name].T for name in weights])
    expected = torch.linalg.lstsq(torch.cat(list(inputs.values())), answers).solution.T
    got = smelt.merge(
        {name: {"w": weight} for name, weight in weights.items()},
        method="regmean",
        statistics={name: {"w": x.T @ x / 7} for name, x in inputs.items()},
        reduction=1.0,
        ridge=0.0,
    )
    assert_close(got["w"], expected, rtol=1e-5, atol=1e-6)


def test_equal_grams_give_the_average():
    gram = [[2.0, 0.7], [0.7, 0.3]]
    assert_close(merged(gram, gram)["w"], (torch.tensor(CARS) + torch.tensor(BIRDS)) / 2)


def test_biases_and_layers_without_a_gram_are_averaged_and_no_base_is_needed():
    got = merged([[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    assert got["b"].tolist() == [2.0, 4.0]
    models = {
        "x": {"w": torch.ones(2, 2), "v": torch.ones(2, 2)},
        "y": {"w": torch.ones(2, 2), "v": 3 * torch.ones(2, 2)},
    }
    grams = {name: {"w": torch.eye(2)} for name in models}
    assert smelt.merge(models, method="regmean", statistics=grams)["v"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert smelt.plan(models, method="regmean", statistics=grams).notes == [
        "gram statistics are read beside x, y",
        "1 tensors have no statistics and are merged plainly: v",
    ]


def test_a_singular_gram_is_refused_with_the_tensors_name_and_the_remedy():
    one_example = [[1.0, 2.0], [2.0, 4.0]]
    with pytest.raises(NumericalError, match=r"'w': .*singular.*more examples.*larger `ridge`"):
        merged(one_example, one_example, reduction=1.0, ridge=0.0)
    merged(one_example, one_example)


@pytest.mark.parametrize("words", [{"reduction": 1.5}, {"reduction": -0.1}, {"ridge": -1e-9}])
def test_values_that_make_no_gram_are_refused(words):
    with pytest.raises(RecipeError, match=f"regmean.{next(iter(words))}"):
        merged([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], **words)


def ill_conditioned():
    """Layers of 40 inputs whose directions shrink by a factor of 300: their Gram matrices by 100,000."""
    draw = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(40, 40, generator=draw, dtype=torch.float64))[0]
    sizes = torch.logspace(0, -2.5, 40, dtype=torch.float64)
    weights, grams = {}, {}
    for name in ("cars", "birds", "dogs"):
        inputs = torch.randn(500, 40, generator=draw, dtype=torch.float64) * sizes @ turn.mT
        weights[name] = torch.randn(8, 40, generator=draw)
        grams[name] = inputs.mT @ inputs / 500
    together = sum(grams.values())
    exact = torch.linalg.solve(together, sum(grams[n] @ weights[n].double().mT for n in grams)).mT
    return weights, grams, exact


def test_gram_matrices_are_float64_until_they_are_solved_with():
    """Rounding them to float32 costs four digits here. The result is as near as float32 can hold it."""
    weights, grams, exact = ill_conditioned()
    models = {name: {"w": weight} for name, weight in weights.items()}
    given = {name: {"w": gram} for name, gram in grams.items()}
    got = smelt.merge(models, method="regmean", statistics=given, reduction=1.0, ridge=0.0)["w"]
    assert float((got - exact).norm() / exact.norm()) < 1e-7
    rounded = {name: {"w": gram.float()} for name, gram in grams.items()}
    got = smelt.merge(models, method="regmean", statistics=rounded, reduction=1.0, ridge=0.0)["w"]
    assert float((got - exact).norm() / exact.norm()) > 1e-5


def test_gram_matrices_on_disk_keep_their_digits_and_old_files_are_read(tmp_path):
    from smelt.formats.statistics import StatisticsNote, write_statistics

    weights, grams, exact = ill_conditioned()
    models = {name: {"w": weight} for name, weight in weights.items()}
    off = {}
    for dtype in ("F64", "F32"):
        given = {}
        for name, gram in grams.items():
            note = StatisticsNote(
                kind="gram", estimator="inputs", model=name, model_hash="", data=(), examples=500, dtype=dtype
            )
            write_statistics(tmp_path / dtype / name, note, {"w": 500 * gram})
            given[name] = str(tmp_path / dtype / name)
        got = smelt.merge(models, method="regmean", statistics=given, reduction=1.0, ridge=0.0)["w"]
        off[dtype] = float((got - exact).norm() / exact.norm())
    assert off["F64"] < 1e-7
    assert 1e-7 < off["F32"] < 1e-2


def test_the_plan_counts_gram_matrices_in_float64():
    from smelt.engine.merge import planned
    from smelt.engine.request import read_request
    from smelt.engine.run.backends import run_limits

    weights, grams, _ = ill_conditioned()
    models = {name: {"w": weight} for name, weight in weights.items()}
    given = {name: {"w": gram} for name, gram in grams.items()}
    recipe, _, pool = read_request(models, None, "regmean", {"statistics": given})
    with planned(recipe, pool=pool) as ready:
        assert run_limits(ready.plan, 1, None).largest == 4 * 8 * 40 * (22 + 2 * 3) + 8 * 3 * 1600 + 8 * 5 * 1600


def test_singular_is_judged_by_the_digits_of_the_inputs():
    """Two inputs that differ by less than float32 shows are one input, in whatever format their products are."""
    nearly = torch.tensor([[1.0, 1.0 - 1e-9], [1.0 - 1e-9, 1.0]], dtype=torch.float64)
    models = {name: {"w": torch.tensor(rows)} for name, rows in (("cars", CARS), ("birds", BIRDS))}
    with pytest.raises(NumericalError, match="singular"):
        smelt.merge(models, method="regmean", statistics={n: {"w": nearly} for n in models}, reduction=1.0, ridge=0.0)
