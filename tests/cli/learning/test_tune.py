"""`smelt tune`: what it prints where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_clip import colour_clip, random_clip, save_clip, write_task

pytest.importorskip("optuna", reason="OPTUNA IS NOT INSTALLED (pip install 'smelt[tune]'): the command is not tested")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that guesses and a model that knows colours: the larger the scale, the better."""
    root = tmp_path_factory.mktemp("tune")
    save_clip(random_clip(1), root / "base")
    save_clip(colour_clip(), root / "right")
    write_task(root / "colours", {"red": 2, "green": 2, "blue": 2})
    return root


@pytest.fixture
def recipe(root: Path) -> Path:
    content = {
        "pool": {"base": "base", "models": {"right": "right"}},
        "merge": "task_arithmetic",
        "tune": {"task_arithmetic.scale": [0.0, 1.0]},
    }
    path = root / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_study_ends_with_its_best_trials_and_the_next_command(
    cli: Any, recipe: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    ran = cli("tune", recipe, "--tasks", root / "colours", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "[ 1/2] task_arithmetic.scale " in ran.err
    assert "[ 2/2] task_arithmetic.scale " in ran.err
    lines = ran.out.splitlines()
    assert lines[0].strip() == "mean accuracy on val, 1 tasks"
    assert "task_arithmetic.scale" in lines[1]
    assert "100.00" in lines[3]
    assert lines[-2].startswith("2 whole trials, 0 stopped early; 2 computed now")
    best = tmp_path / "out" / "best.yaml"
    assert lines[-1] == f"best: task_arithmetic.scale 1.0 with 100.00 %. Next: smelt merge {best} -o OUT"
    merged = cli("merge", best, "-o", tmp_path / "merged", "--quiet")
    assert (merged.code, merged.out) == (0, "")


def test_json_holds_the_best_and_every_trial(cli: Any, recipe: Path, root: Path, tmp_path: Path) -> None:
    ran = cli("tune", recipe, "--tasks", root / "colours", "-o", tmp_path / "out", "--json")
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert told["values"] == {"task_arithmetic.scale": 1.0}
    assert told["best"]["merge"] == [{"task_arithmetic": {"scale": 1.0}}]
    assert {trial["state"] for trial in told["trials"]} == {"complete"}
    again = cli("tune", recipe, "--tasks", root / "colours", "-o", tmp_path / "out", "--quiet")
    assert (again.code, again.out, again.err) == (0, "", "")


def test_test_pictures_and_wrong_words_are_bad_requests(cli: Any, recipe: Path, root: Path, tmp_path: Path) -> None:
    words = ("tune", recipe, "--tasks", root / "colours", "-o", tmp_path / "out")
    refused = cli(*words, "--split", "test")
    assert refused.code == 2
    assert "settings are not chosen on `test`" in refused.err
    assert cli(*words, "--executor", "rya").code == 2
    recipe.write_text(recipe.read_text().replace("arithmetic.scale", "arithmetic.scael"))
    refused = cli(*words)
    assert refused.code == 2
    assert "did you mean 'scale'" in refused.err
