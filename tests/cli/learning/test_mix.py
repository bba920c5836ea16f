from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_clip import random_clip, save_clip, write_task


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    base, one, two = (
        str(save_clip(random_clip(seed), tmp_path / "models" / name))
        for seed, name in enumerate(("base", "one", "two"))
    )
    pool = {"base": base, "models": {"one": one, "two": two}}
    tasks = {name: str(write_task(tmp_path / name)) for name in pool["models"]}
    content = {"pool": pool, "merge": {"wemoe": {"steps": 2, "batch": 4}}, "data": {"tasks": tasks, "examples": 8}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "recipe.yaml"


def test_it_prints_what_was_made_and_how_tasks_are_routed(tmp_path: Path, recipe: Path, cli: Any) -> None:
    ran = cli("mix", recipe, "-o", tmp_path / "out")
    assert ran.code == 0, ran.out
    assert "2 experts, 2 steps in" in ran.out
    assert "(16 examples of val, no labels)" in ran.out
    assert "mean gates over all blocks" in ran.out
    assert "smelt eval" in ran.out
    assert (tmp_path / "out" / "mix.json").is_file()


def test_quiet_prints_nothing_and_json_everything(tmp_path: Path, recipe: Path, cli: Any) -> None:
    assert cli("mix", recipe, "-o", tmp_path / "quiet", "--quiet", "--steps", 0).out == ""
    content = json.loads(cli("mix", recipe, "-o", tmp_path / "json", "--json", "--steps", 1, "--seed", 3).out)
    assert (content["note"]["learning"]["steps"], content["note"]["seed"]) == (1, 3)
    assert content["routing"]["columns"] == ["one", "two"]


def test_models_can_be_given_by_flags(tmp_path: Path, recipe: Path, cli: Any) -> None:
    pool = yaml.safe_load(recipe.read_text())["pool"]
    models = [word for name, ref in pool["models"].items() for word in ("--model", f"{name}={ref}")]
    ran = cli(
        "mix", "--base", pool["base"], *models, "--set", "steps=0", "--set", "top=1", "-o", tmp_path / "out", "--json"
    )
    assert json.loads(ran.out)["note"]["parameters"]["top"] == 1


def test_a_bad_request_exits_with_2(tmp_path: Path, recipe: Path, cli: Any) -> None:
    ran = cli("mix", recipe, "-o", tmp_path / "out", "--set", "stpes=3")
    assert ran.code == 2
    assert "no parameter or word of the recipe named 'stpes' (did you mean 'steps'?)" in ran.err
    assert not (tmp_path / "out").exists()
