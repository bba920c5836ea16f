"""`smelt learn` on real CLIP models of a few thousand numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import smelt
from checkpoints import write_yaml
from pico_clip import colour_clip, save_clip, write_task
from smelt.cli.learning.learn import learn
from smelt.errors import OutputError, RecipeError


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A base, two fine-tunes of its picture tower, a task, and a recipe."""
    import torch

    save_clip(colour_clip(), tmp_path / "base")
    for seed, name in enumerate(("one", "two")):
        model = colour_clip()
        torch.manual_seed(seed)
        with torch.no_grad():
            for key, tensor in model.named_parameters():
                if key.startswith("vision_model."):
                    tensor.add_(0.05 * torch.randn(tensor.shape))
        save_clip(model, tmp_path / name)
    task = write_task(tmp_path / "colours")
    write_yaml(
        tmp_path / "recipe.yaml",
        {
            "pool": {"base": "base", "models": {"one": "one", "two": "two"}},
            "merge": {"adamerging": {"steps": 3, "batch": 8}},
            "data": {"tasks": {"one": str(task), "two": str(task)}, "examples": 24},
        },
    )
    return tmp_path


def run(*words: object) -> tuple[str, BaseException | None]:
    app = typer.Typer()
    app.command()(learn)
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.output, done.exception


def test_it_prints_losses_coefficients_and_the_next_command(scene: Path):
    out, error = run(scene / "recipe.yaml", "-o", scene / "out", "--threads", 1)
    assert error is None, out
    assert "mean coefficient" in out
    assert "3 steps in" in out
    assert "24 examples of val, no labels" in out
    assert f"next: smelt merge {scene / 'out' / 'recipe.yaml'} -o MODEL" in out.replace("\n", "")
    summary = smelt.merge(scene / "out" / "recipe.yaml", out=scene / "merged")
    assert summary.tensors > 10
    rows = smelt.evaluate(str(scene / "merged"), [scene / "colours"], threads=1)
    assert rows[0].n == 30
    again, _ = run(scene / "recipe.yaml", "-o", scene / "out", "--threads", 1)
    assert "was there already" in again


def test_a_place_that_is_taken_is_refused_before_anything_is_learned(scene: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("learned")

    monkeypatch.setattr("smelt.learning.learner.optimise", fail)
    (scene / "full").mkdir()
    (scene / "full" / "mine.txt").write_text("mine")
    for place in (scene / "full", scene / "recipe.yaml"):
        _, error = run(scene / "recipe.yaml", "-o", place, "--quiet")
        assert isinstance(error, OutputError)
        assert "exists and holds something else" in str(error)
    _, error = run(scene / "recipe.yaml", "-o", scene / "recipe.yaml" / "out", "--quiet")
    assert "is nothing that this user can write to" in str(error)


def test_json_has_the_recipe_and_the_budget(scene: Path):
    out, error = run(scene / "recipe.yaml", "--json", "--steps", 2, "--set", "seed=4", "--threads", 1)
    assert error is None, out
    table = json.loads(out)
    assert table["steps"] == 2
    assert table["budget"] == {"split": "val", "images": 24, "labels": 0}
    assert table["recipe"]["seed"] == 4
    assert table["recipe"]["include"] == ["vision_model.*"]
    assert set(table["coefficients"]) == {"one", "two"}
    assert set(table["loss"]["one"]) == {"first", "last"}


def test_quiet_prints_nothing(scene: Path):
    assert run(scene / "recipe.yaml", "--quiet", "--steps", 1, "--threads", 1) == ("", None)


def test_a_split_and_examples_that_are_not_there_are_refused(scene: Path):
    _, error = run(scene / "recipe.yaml", "--set", "data={tasks: {one: colours}}", "--quiet")
    assert isinstance(error, RecipeError)
    assert "no data for 'two'" in str(error)
    task = str(scene / "colours")
    _, error = run(
        scene / "recipe.yaml", "--set", f"data={{tasks: {{one: {task}, two: {task}}}, examples: 31}}", "--quiet"
    )
    assert "31 examples are asked for, but its val split has 30" in str(error)


def test_masks_of_a_clip_model_are_learned_from_labels(scene: Path):
    task = str(scene / "colours")
    words = f"data={{tasks: {{one: {task}, two: {task}}}, split: val}}"
    recipe = write_yaml(
        scene / "localize.yaml",
        {
            "pool": {"base": "base", "models": {"one": "one", "two": "two"}},
            "merge": {"localize": {"steps": 2, "batch": 8, "density": 0.25}},
        },
    )
    out, error = run(recipe, "-o", scene / "masks", "--set", words, "--threads", 1)
    assert error is None, out
    assert "30 examples of val, 30 labels" in out
    summary = smelt.merge(scene / "masks" / "recipe.yaml", out=scene / "stitched")
    assert summary.stages == ("stitch",)
