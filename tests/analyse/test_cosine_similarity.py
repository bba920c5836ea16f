"""Cosines of task vectors, by hand."""

import csv
import json
import math

import pytest
import torch

from analysed_by_hand import pool, tensors, three
from checkpoints import random_state, write_model, write_yaml
from smelt.analyse import cosine_similarity, deltas
from smelt.errors import IncompatibleModels, NumericalError, RecipeError
from smelt.recipe.schema import Pool


def test_cosines_of_three_known_changes():
    found = cosine_similarity(three())
    half = math.sqrt(0.5)
    assert found.names == ("a", "b", "c")
    expected = [(1, half, -1), (half, 1, -half), (-1, -half, 1)]
    assert [row == pytest.approx(want, abs=1e-15) for row, want in zip(found.matrix, expected, strict=True)] == [
        True
    ] * 3
    assert (found.tensors, found.parameters, found.notes) == (1, 2, ())


def test_all_tensors_are_one_vector():
    base = tensors(x=[0], y=[0])
    found = cosine_similarity(pool(base, a=tensors(x=[3], y=[4]), b=tensors(x=[4], y=[3])))
    assert found.matrix[0][1] == pytest.approx(24 / 25, abs=1e-15)


def test_a_model_that_equals_its_base_has_nan_and_a_note_says_so(tmp_path):
    base = tensors(w=[1, 2])
    found = cosine_similarity(pool(base, same=base, other=tensors(w=[2, 2])))
    assert [[math.isnan(number) for number in row] for row in found.matrix] == [[True, True], [True, False]]
    assert found.matrix[1][1] == 1.0
    assert any("same equals the base" in note for note in found.notes)
    assert found.to_json()["matrix"] == [[None, None], [None, 1.0]]
    json.dumps(found.to_json(), allow_nan=False)


def test_csv_has_names_above_and_beside_every_digit(tmp_path):
    found = cosine_similarity(three())
    with found.to_csv(tmp_path / "deep" / "cos.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["", "a", "b", "c"]
    assert [name for name, *_ in rows] == ["a", "b", "c"]
    assert tuple(tuple(map(float, row[1:])) for row in rows) == found.matrix


def test_keys_and_skip_choose_tensors():
    base = tensors(vision__w=[0, 0], text__w=[0, 0])
    models = pool(base, a=tensors(vision__w=[1, 0], text__w=[1, 0]), b=tensors(vision__w=[1, 0], text__w=[0, 1]))
    assert cosine_similarity(models).matrix[0][1] == pytest.approx(0.5)
    assert cosine_similarity(models, "vision.*").matrix[0][1] == 1.0
    assert cosine_similarity(models, ["text.*"]).matrix[0][1] == 0.0
    assert cosine_similarity(models, skip="text.*").matrix[0][1] == 1.0
    with pytest.raises(RecipeError, match=r"'visoin.*' matches no tensor"):
        cosine_similarity(models, "visoin.*")


def test_tensors_that_a_model_lacks_are_left_out_and_named():
    base = tensors(w=[0, 0], head=[0])
    found = cosine_similarity(pool(base, a=tensors(w=[1, 0], head=[9]), b=tensors(w=[1, 0])))
    assert found.matrix[0][1] == 1.0
    assert found.notes == ("left out 1 tensors that not every model has: 'head'",)


def test_another_shape_is_refused_and_can_be_skipped():
    models = pool(tensors(w=[0], head=[0, 0]), a=tensors(w=[1], head=[1, 1]), b=tensors(w=[1], head=[1, 1, 1]))
    with pytest.raises(IncompatibleModels, match=r"compared: 'head' is \(2,\) in base, a but \(3,\) in b; .*skip='h"):
        cosine_similarity(models)
    assert cosine_similarity(models, skip="head").matrix[0][1] == 1.0


def test_integers_do_not_count():
    base = {**tensors(w=[0, 0]), "ids": torch.arange(3)}
    a = {**tensors(w=[1, 0]), "ids": torch.arange(3) + 5}
    assert cosine_similarity(pool(base, a=a, b=a)).parameters == 2


def test_nan_in_a_model_is_refused_by_name():
    with pytest.raises(NumericalError, match="'w' of b holds NaN"):
        cosine_similarity(pool(tensors(w=[0, 0]), a=tensors(w=[1, 0]), b=tensors(w=[1, math.nan])))


def test_without_a_base_there_are_no_task_vectors():
    with pytest.raises(RecipeError, match="`base=REF`"):
        cosine_similarity(pool(None, a=tensors(w=[1])))


def test_blocks_equal_the_whole(monkeypatch):
    shapes = {"x": (70, 60), "y": (33,), "z": ()}
    base, *models = (random_state(seed, shapes) for seed in range(4))
    named = {f"m{number}": model for number, model in enumerate(models)}
    flat = torch.stack([torch.cat([(m[k] - base[k]).flatten() for k in shapes]) for m in models]).double()
    expected = torch.corrcoef(torch.cat([flat, -flat], 1))  # centred by construction, so correlation is the cosine
    monkeypatch.setattr(deltas, "_STACK", 1)
    found = torch.tensor(cosine_similarity(named, base=base).matrix, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_sums_are_double_precision():
    """A sum of a million ones and a tiny rest: float32 would lose the rest."""
    count = 1 << 20
    base = {"w": torch.zeros(count + 1)}
    a = {"w": torch.cat([torch.ones(count), torch.tensor([0.0])])}
    b = {"w": torch.cat([torch.ones(count), torch.tensor([0.25])])}
    assert cosine_similarity({"a": a, "b": b}, base=base).matrix[0][1] == pytest.approx(
        math.sqrt(count / (count + 1 / 16)), abs=1e-14
    )


def test_pools_come_as_files_tables_and_recipes(tmp_path, two):
    base, cars, birds = two
    write_model(tmp_path / "models" / "other", random_state(1, {"embed.weight": (4, 3)}))
    refs = {"base": str(base), "models": {"cars": str(cars), "birds": str(birds)}}
    relative = {"base": "models/base", "models": ["models/cars", "models/birds"]}
    for given in (
        write_yaml(tmp_path / "pool.yaml", relative),
        write_yaml(tmp_path / "nested.yaml", {"pool": relative}),
        write_yaml(tmp_path / "recipe.yaml", {"pool": relative, "merge": "ties"}),
        write_yaml(tmp_path / "kit.yaml", {
            "merge_method": "ties", "base_model": str(base), "dtype": "float32",
            "models": [{"model": str(ref), "parameters": {"weight": 1, "density": 0.5}} for ref in (cars, birds)],
        }),
        {"pool": refs, "merge": "ties"},
        Pool(**refs),
    ):  # fmt: skip
        found = cosine_similarity(given)
        assert (len(found.names), found.matrix[0]) == (2, pytest.approx((1.0, 1.0)))
    assert cosine_similarity({"cars": cars, "birds": birds}, base=base).names == ("cars", "birds")
    with pytest.raises(RecipeError, match="already names its base"):
        cosine_similarity(Pool(**refs), base=base)
    with pytest.raises(RecipeError, match="no recipe or pool at"):
        cosine_similarity(tmp_path / "nowhere.yaml")
