"""Coefficients as files, as recipes, as a heat map."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from smelt.errors import CorruptFile, RecipeError
from smelt.learning.coefficients import Coefficients, heat_rows, load_coefficients, patterns_for, save_coefficients
from smelt.learning.tensor_groups import groups_of
from smelt.reporting.analyses import read_analyses

KEYS = ("v.embed.weight", "v.layers.0.a", "v.layers.0.b", "v.layers.1.a", "v.layers.1.b", "v.norm.weight")
BY_TENSOR = Coefficients(
    "tensor",
    groups_of(KEYS, "tensor"),
    {"red": (0.1, 0.2, 0.4, 0.5, 0.7, 0.9), "green": (0.0, 0.1, 0.3, 0.5, 0.5, 1.0)},
)
BY_TASK = Coefficients("task", groups_of(KEYS, "task"), {"red": (0.25,), "green": (0.5,)})


@pytest.mark.parametrize("one", [BY_TENSOR, BY_TASK])
def test_json_gives_back_what_was_saved(tmp_path: Path, one):
    assert load_coefficients(save_coefficients(tmp_path / "deep" / "c.json", one)) == one


@pytest.mark.parametrize("one", [BY_TENSOR, BY_TASK])
def test_a_bare_tensor_is_read_against_the_names_that_are_given(tmp_path: Path, one):
    path = save_coefficients(tmp_path / "c.pt", one)
    assert torch.load(path, weights_only=True).shape == ((2, 6) if one is BY_TENSOR else (2,))
    back = load_coefficients(path, models=["red", "green"], keys=KEYS)
    assert (back.level, back.groups) == (one.level, one.groups)
    assert back.values["red"] == pytest.approx(one.values["red"])
    with pytest.raises(RecipeError, match="names nothing; give the models and tensors"):
        load_coefficients(path)
    with pytest.raises(RecipeError, match="numbers, but"):
        load_coefficients(path, models=["red"], keys=KEYS)


def test_coefficients_of_other_models_are_refused(tmp_path: Path):
    path = save_coefficients(tmp_path / "c.json", BY_TASK)
    with pytest.raises(RecipeError, match="has coefficients of red, green, but the models are red, blue"):
        load_coefficients(path, models=["red", "blue"])


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"level": "tensor"}', '{"level": "x", "groups": {}, "values": {"a": []}}']
)
def test_what_is_no_file_of_coefficients_is_named(tmp_path: Path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CorruptFile, match="not readable as JSON" if text == "{" else "not a file of coefficients"):
        load_coefficients(tmp_path / "c.json")
    (tmp_path / "c.pt").write_text(text)
    with pytest.raises(CorruptFile, match="weights_only"):
        load_coefficients(tmp_path / "c.pt", models=["red"], keys=KEYS)
    with pytest.raises(RecipeError, match="there are no coefficients at"):
        load_coefficients(tmp_path / "absent.json")
    with pytest.raises(RecipeError, match="coefficients are written as"):
        save_coefficients(tmp_path / "c.txt", BY_TASK)


def test_a_pickle_that_runs_code_is_not_run(tmp_path: Path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save(Evil(), tmp_path / "c.pt")
    with pytest.raises(CorruptFile, match="weights_only"):
        load_coefficients(tmp_path / "c.pt", models=["red"], keys=KEYS)
    assert not (tmp_path / "ran").exists()


def test_patterns_are_few_and_exact():
    assert patterns_for(KEYS, KEYS) == ["*"]
    assert patterns_for(KEYS, [*KEYS, "t.norm.weight"]) == ["v.*"]
    assert patterns_for(KEYS[1:3], KEYS) == ["v.layers.0.*"]
    assert patterns_for(KEYS[1:3], [*KEYS, "v.layers.0.c"]) == ["v.layers.0.a", "v.layers.0.b"]
    assert patterns_for(("a.b", "a.c"), ["a.b", "a.c", "a.bc"]) == ["a.b", "a.c"]
    assert patterns_for(("odd[1]",), ["odd[1]", "odd1"]) == ["odd[[]1]"]


def test_the_recipe_of_one_coefficient_per_model_is_short():
    (stage,) = BY_TASK.merge(KEYS)
    assert stage == {"task_arithmetic": {"scale": 1.0, "weights": {"red": 0.25, "green": 0.5}}}
    (stage,) = BY_TASK.merge([*KEYS, "t.norm"])
    assert stage["task_arithmetic"]["weights"]["red"] == [{"filter": "v.*", "value": 0.25}, {"value": 0.0}]


def test_the_heat_map_has_the_mean_of_every_layer_and_the_report_reads_it(tmp_path: Path):
    rows = heat_rows(BY_TENSOR)
    assert rows["layers"] == ["before the blocks", "v.layers.0", "v.layers.1", "after the blocks"]
    assert rows["models"]["red"] == pytest.approx([0.1, 0.3, 0.6, 0.9])
    assert heat_rows(BY_TASK)["models"]["red"] == [0.25] * 4
    import json

    (tmp_path / "norms.json").write_text(json.dumps(rows))
    assert read_analyses(tmp_path).norms.layers == tuple(rows["layers"])


def test_means_are_over_all_groups():
    assert BY_TENSOR.means["green"] == pytest.approx(0.4)
