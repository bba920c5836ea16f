"""`smelt bench`: what it prints where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
from pico_clip import colour_clip, random_clip, save_clip, write_task
from smelt.suites.merge_process import MergedModel


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("models")
    made = {"base": random_clip(1), "right": colour_clip(), "other": random_clip(2)}
    return {name: str(save_clip(model, root / name)) for name, model in made.items()}


@pytest.fixture
def suite(models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two merges of two models on two tasks, merged in this process."""

    def merge(recipe: Path, out: Path, **words: Any) -> MergedModel:
        smelt.merge(recipe, out=out, force=True)
        return MergedModel(out, 0.1, 1_000)

    monkeypatch.setattr("smelt.suites.clip.units.merge_in_process", merge)
    monkeypatch.setattr("smelt.suites.plan.EXECUTOR", "inline")
    monkeypatch.delenv("COLUMNS", raising=False)
    content = {
        "name": "mine",
        "version": 1,
        "title": "Mine",
        "pool": {"base": models["base"], "models": {name: models[name] for name in ("right", "other")}},
        "tasks": [str(write_task(tmp_path / name)) for name in ("colours", "paints")],
        "scales": [0.5],
        "curve_limit": 3,
        "entries": {
            "average": {"label": "Simple averaging", "merge": "average"},
            "ties": {"label": "TIES", "merge": {"ties": {"density": 0.5}}},
        },
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_suite_ends_with_its_table_and_the_place_of_its_report(cli: Any, suite: Path, tmp_path: Path) -> None:
    ran = cli("bench", suite, "-o", tmp_path / "out")
    assert ran.code == 0
    assert "[ 1/7] Pre-trained:" in ran.err
    assert "[ 7/7] TIES at 0.5 (tuned):" in ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == ["colours", "paints", "average", "of", "experts"]
    assert [line.split("  ")[0] for line in lines[1:8]] == [
        "Reference",
        "Pre-trained",
        "Fine-tuned experts",
        "Model merging (data-free)",
        "Simple averaging",
        "TIES",
        "TIES (tuned)",
    ]
    assert lines[-1].startswith("14 numbers computed in ")
    assert lines[-1].endswith(f"the report: {tmp_path / 'out' / 'report.html'}")
    again = cli("bench", suite, "-o", tmp_path / "out")
    assert (again.code, again.out.splitlines()[-1][:20]) == (0, "0 numbers computed i")


def test_quiet_prints_nothing(cli: Any, suite: Path, tmp_path: Path) -> None:
    ran = cli("bench", suite, "-o", tmp_path / "out", "--quiet", "--no-tune", "--methods", "average")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "out" / "report.html").exists()


def test_json_is_all_of_the_output_and_holds_the_rows(cli: Any, suite: Path, tmp_path: Path) -> None:
    words = ["--no-tune", "--methods", "average, ties", "--tasks", tmp_path / "paints", "--limit", 9, "--json"]
    ran = cli("bench", suite, "-o", tmp_path / "out", *words)
    assert (ran.code, ran.err) == (0, "")
    content = json.loads(ran.out)
    assert content["report"] == str(tmp_path / "out" / "report.html")
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert content["rows"] == rows
    assert {(row["task"], row["n"]) for row in rows if row["kind"] == "accuracy"} == {("paints", 9)}


def test_without_a_folder_the_suites_name_is_taken(
    cli: Any, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("bench", suite, "--quiet", "--no-tune", "--methods", "average").code == 0
    assert (tmp_path / "mine" / "rows.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "tise"], "smelt: no method of the suite named 'tise' (did you mean 'ties'?)"),
        (["--tasks", "nowhere"], "smelt: no task of the suite named 'nowhere'"),
        (["--limit", "0"], "limit"),
        (["--device", "quantum"], "quantum"),
        (["--dtype", "int4"], "int4"),
    ],
)
def test_a_wrong_word_ends_with_two_and_says_why(
    cli: Any, suite: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    ran = cli("bench", suite, "-o", tmp_path / "out", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_an_unknown_suite_ends_with_two(cli: Any) -> None:
    ran = cli("bench", "clip9")
    assert (ran.code, "no suite named 'clip9' (did you mean 'clip8'?)" in ran.err) == (2, True)


def test_a_folder_of_another_run_is_refused(cli: Any, suite: Path, tmp_path: Path) -> None:
    words = ["bench", suite, "-o", tmp_path / "out", "--methods", "average", "--no-tune", "--quiet"]
    assert cli(*words, "--limit", 5).code == 0
    refused = cli(*words, "--limit", 6)
    assert (refused.code, "was begun with limit 5 instead of 6" in refused.err) == (2, True)


def test_force_begins_anew(cli: Any, suite: Path, tmp_path: Path) -> None:
    words = ["bench", suite, "-o", tmp_path / "out", "--methods", "average", "--no-tune", "--quiet"]
    assert cli(*words, "--limit", 5).code == 0
    assert cli(*words, "--limit", 6, "--force").code == 0
    assert '"n":5' not in (tmp_path / "out" / "rows.jsonl").read_text()
