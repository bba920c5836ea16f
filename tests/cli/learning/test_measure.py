from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pico_clip import random_clip, save_clip, write_task
from smelt.cli.learning.measure import app
from smelt.errors import RecipeError

run = CliRunner()


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    model, task = save_clip(random_clip(), tmp_path / "model"), write_task(tmp_path / "colours")
    return [str(model), "--task", str(task), "--examples", "12", "--split", "val"]


def test_both_statistics_are_measured_and_shown(words: list[str], tmp_path: Path) -> None:
    for kind, how in (("fisher", "exact"), ("gram", "inputs")):
        done = run.invoke(app, [kind, *words, "-o", str(tmp_path / kind)], catch_exceptions=False)
        assert done.exit_code == 0
        assert f"{kind} ({how}) of {words[0]} on 12 examples of colours (val)" in done.stdout.replace("\n", "")
        assert (tmp_path / kind / "statistics.json").is_file()


def test_json_holds_the_folder_and_the_note(words: list[str]) -> None:
    done = run.invoke(app, ["fisher", *words, "--estimator", "empirical", "--json"], catch_exceptions=False)
    shown = json.loads(done.stdout)
    assert Path(shown["folder"]).is_dir()
    assert (shown["kind"], shown["estimator"], shown["examples"]) == ("fisher", "empirical", 12)
    assert shown["data"][0]["labels"] == 12


def test_shares_are_combined(words: list[str], tmp_path: Path) -> None:
    for share in ("1/2", "2/2"):
        run.invoke(app, ["gram", *words, "--share", share, "-o", str(tmp_path / share[0]), "--quiet"])
    done = run.invoke(app, ["combine", str(tmp_path / "1"), str(tmp_path / "2"), "-o", str(tmp_path / "3"), "--json"])
    assert json.loads(done.stdout)["examples"] == 12


def test_quiet_prints_nothing(words: list[str]) -> None:
    done = run.invoke(app, ["gram", *words, "--quiet"], catch_exceptions=False)
    assert (done.exit_code, done.output) == (0, "")


def test_measuring_on_the_test_split_is_pointed_out(words: list[str]) -> None:
    done = run.invoke(app, ["gram", *words[:-1], "test"], catch_exceptions=False)
    assert "note: measured on the test split of colours" in done.stdout


def test_a_bad_request_is_a_bad_request(words: list[str]) -> None:
    done = run.invoke(app, ["fisher", *words, "--estimator", "exat"])
    assert isinstance(done.exception, RecipeError)
    assert done.exception.exit_code == 2
