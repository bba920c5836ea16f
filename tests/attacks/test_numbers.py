"""NaN and infinity never pass: not from an input, not from the arithmetic, not from rounding to the output's type."""

import pytest
import torch

import smelt
from checkpoints import read_weights, snapshot, state, write_model
from smelt.errors import NumericalError, RecipeError


def spoil(folder, name, element, value):
    tensors = state(1.0)
    tensors[name].view(-1)[element] = value
    return write_model(folder, tensors)


def refuses(tmp_path, error, *words, **request):
    before = snapshot(tmp_path)
    with pytest.raises(error) as caught:
        smelt.merge(**request, out=tmp_path / "out")
    for word in words:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2
    inputs = {name: content for name, content in snapshot(tmp_path).items() if ".smelt-partial" not in name}
    assert inputs == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("method", ["average", "ties", "slerp", "model_stock", "tsv"])
def test_a_bad_number_in_a_model_is_refused_with_its_place(tmp_path, two, value, method):
    base, cars, birds = two
    spoil(birds, "layers.1.mlp.weight", 7, value)
    words = ("birds", str(birds), str(value), "'layers.1.mlp.weight'", "element 7", "`skip='layers.1.mlp.weight'`")
    refuses(tmp_path, NumericalError, *words, models={"cars": cars, "birds": birds}, base=base, method=method)


def test_a_bad_number_in_the_base_is_refused_where_the_base_is_used(tmp_path, two):
    base, cars, birds = two
    spoil(base, "head.weight", 0, float("nan"))
    refuses(tmp_path, NumericalError, "base", "nan", "'head.weight'", models=[cars, birds], base=base, method="ties")


def test_the_command_line_exits_with_2_and_no_traceback(tmp_path, two, cli):
    _base, cars, birds = two
    spoil(birds, "head.weight", 3, float("nan"))
    ran = cli("merge", "--model", cars, "--model", birds, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "'head.weight' at element 3" in ran.err
    assert "Traceback" not in ran.err


def test_opposite_infinities_do_not_cancel(tmp_path, two):
    _base, cars, birds = two
    tensors = state(1.0)
    tensors["head.weight"][0] = torch.tensor([float("inf"), float("-inf"), 0.0])
    write_model(birds, tensors)
    refuses(tmp_path, NumericalError, "birds", "inf", "element 0", models={"cars": cars, "birds": birds})


def test_large_but_finite_numbers_pass(tmp_path):
    for name in ("cars", "birds"):
        write_model(tmp_path / name, {"w": torch.full((64,), 3e38)}, None)
    merged = smelt.merge([tmp_path / "cars", tmp_path / "birds"], method="average")
    assert merged["w"].tolist() == torch.full((64,), 3e38).tolist()


def test_the_sum_of_large_numbers_is_refused_as_a_result(tmp_path):
    for name in ("cars", "birds"):
        write_model(tmp_path / name, {"w": torch.full((4,), 3e38)}, None)
    pool = {name: tmp_path / name for name in ("cars", "birds")}
    words = ("the merge gave inf", "'w'", "element 0", "weights")
    refuses(tmp_path, NumericalError, *words, models=pool, method="average", normalize=False)


def test_a_result_too_large_for_float16_is_refused(tmp_path):
    write_model(tmp_path / "cars", {"w": torch.tensor([1.0, 70000.0])}, None)
    write_model(tmp_path / "birds", {"w": torch.tensor([1.0, 70000.0])}, None)
    pool = {name: tmp_path / name for name in ("cars", "birds")}
    refuses(tmp_path, NumericalError, "'w'", "element 1", "F16", models=pool, dtype="float16")


def test_a_copied_tensor_too_large_for_float16_is_refused_too(tmp_path):
    for name in ("cars", "birds"):
        write_model(tmp_path / name, {"w": torch.ones(2), "scale": torch.tensor([1.0, 70000.0])}, None)
    pool = {name: tmp_path / name for name in ("cars", "birds")}
    refuses(tmp_path, NumericalError, "'scale'", "element 1", "F16", models=pool, dtype="float16", skip="scale")


def test_a_skipped_tensor_may_hold_anything_and_is_copied_as_it_is(tmp_path, two):
    base, cars, birds = two
    spoil(base, "head.weight", 0, float("nan"))
    spoil(birds, "head.weight", 0, float("nan"))
    smelt.merge([cars, birds], base=base, method="ties", skip="head.weight", out=tmp_path / "out")
    merged = read_weights(tmp_path / "out")["head.weight"].view(-1)
    assert merged[0].isnan()
    assert not merged[1:].isnan().any()


@pytest.mark.parametrize("method", ["average", "linear", "task_arithmetic"])
def test_weights_that_sum_to_zero_are_refused(tmp_path, two, method):
    base, cars, birds = two
    request = {"models": [cars, birds], "base": base, "method": method, "normalize": True}
    refuses(tmp_path, RecipeError, "sum to zero", "normalize: false", weights=[1, -1], **request)


@pytest.mark.parametrize("method", ["slerp", "nuslerp", "multislerp", "karcher"])
def test_zero_weights_give_an_error_or_finite_numbers_in_other_methods(two, method):
    base, cars, birds = two
    try:
        merged = smelt.merge([cars, birds], base=base, method=(method, {"weights": [0.0, 0.0]}))
    except (RecipeError, NumericalError):
        return
    assert all(tensor.isfinite().all() for tensor in merged.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), ".nan"])
def test_a_weight_that_is_no_number_is_refused(two, value):
    base, cars, birds = two
    with pytest.raises((RecipeError, NumericalError), match="weights"):
        smelt.merge([cars, birds], base=base, method="average", weights=[1, value])


def test_nothing_is_left_of_a_merge_that_cannot_succeed(tmp_path, two):
    base, cars, birds = two
    spoil(birds, "head.weight", 0, float("nan"))
    before = snapshot(tmp_path)
    with pytest.raises(NumericalError):
        smelt.merge([cars, birds], out=tmp_path / "out")
    assert snapshot(tmp_path) == before
    with pytest.raises(RecipeError):
        smelt.merge([cars, base], method="average", weights=[1, -1], out=tmp_path / "out")
    assert snapshot(tmp_path) == before
