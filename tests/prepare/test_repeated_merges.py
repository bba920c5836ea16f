"""Merges inside a study are those that `smelt merge` makes, read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import state, write_model
from smelt.engine import scales as scaled
from smelt.prepare import repeated_merges as merging
from smelt.prepare.repeated_merges import RepeatedMerges
from smelt.recipe.schema import Recipe
from smelt.search import trial
from smelt.search.space import recipe_at


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    torch.manual_seed(0)
    names = {"base": 0.0, "cars": 1.0, "birds": -2.0}
    for name, value in names.items():
        made = {key: tensor + torch.randn_like(tensor) for key, tensor in state(value).items()}
        write_model(tmp_path / name, made)
    pool = {"base": "base", "models": {"cars": "cars", "birds": "birds"}}
    return Recipe.parse({"pool": pool, "merge": {"ties": {"density": 0.5, "scale": 0.3}}})


@pytest.mark.parametrize("dtype", [None, "bfloat16", "float32"])
@pytest.mark.parametrize("merge", [{"ties": {"density": 0.4, "scale": 0.7}}, "task_arithmetic", "karcher"])
def test_a_trial_merges_what_smelt_merge_merges(recipe: Recipe, tmp_path: Path, merge: Any, dtype: str | None) -> None:
    wanted = Recipe.parse({**recipe.dump(), "merge": merge, "dtype": dtype})
    made = RepeatedMerges(wanted, tmp_path).at(wanted)
    path = tmp_path / "recipe.yaml"
    wanted.save(path)
    true = smelt.merge(path)
    assert made.keys() == true.keys()
    for key, tensor in true.items():
        assert made[key].dtype == tensor.dtype
        assert torch.equal(made[key], tensor)


def test_one_merge_gives_all_scales_and_another_density_is_another_merge(recipe: Recipe, tmp_path: Path) -> None:
    merges = RepeatedMerges(recipe, tmp_path)
    for density, scale in [(0.5, 0.1), (0.5, 0.9), (0.2, 0.1), (0.5, 0.4)]:
        merges.at(recipe_at(recipe, {"ties.density": density, "ties.scale": scale}))
    assert merges._scaled.merged == 2


def test_models_are_read_once_and_their_files_closed(recipe: Recipe, tmp_path: Path) -> None:
    merges = RepeatedMerges(recipe, tmp_path)
    for name in ("base", "cars", "birds"):
        for file in (tmp_path / name).glob("*.safetensors"):
            file.unlink()
    assert merges.at(recipe)
    assert merges.at(recipe_at(recipe, {"ties.density": 0.1}))


def test_models_that_do_not_fit_stay_on_disk(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = RepeatedMerges(recipe, tmp_path).at(recipe)
    monkeypatch.setattr(merging, "_MODELS", 0)
    monkeypatch.setattr(scaled, "KEPT", 0)
    monkeypatch.setattr(scaled, "LARGEST", 0)
    merges = RepeatedMerges(recipe, tmp_path)
    other = merges.at(recipe_at(recipe, {"ties.density": 0.1}))
    outside = merges.at(recipe)
    assert len(merges._scaled._changes) == 1
    assert all(torch.equal(inside[key], outside[key]) for key in inside)
    assert any(not torch.equal(inside[key], other[key]) for key in inside)


def test_what_one_device_looked_at_is_not_used_for_another(recipe: Recipe, tmp_path: Path) -> None:
    place = str(tmp_path)
    try:
        first = trial._study(recipe, place, {}, "cpu")
        assert trial._study(recipe, place, {}, "cpu") is first
        assert trial._study(recipe, place, {}, "cuda") is not first
    finally:
        trial.forget()


def test_a_study_that_tries_no_scale_keeps_no_change(recipe: Recipe, tmp_path: Path) -> None:
    merges = RepeatedMerges(recipe, tmp_path)
    kept = merges.at(recipe)
    alone = RepeatedMerges(recipe, tmp_path)
    once = alone.at(recipe, once=True)
    assert (len(merges._scaled._changes), len(alone._scaled._changes)) == (1, 0)
    assert all(torch.equal(kept[key], once[key]) for key in kept)
    assert trial._tries_scales({"setting": {"ties.density": 0.2, "ties.scale": 0.3}})
    assert not trial._tries_scales({"setting": {"ties.density": 0.2}})
