"""`smelt bench` with a collaboration suite: what it prints, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from collaboration_suite import ALONE, Together

TURNED = "Turned, 2 experts"


@pytest.fixture
def finished(together: Together, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which everything is there already."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return Path(shutil.copytree(together.done.folder, tmp_path / "out"))


def test_json_is_all_of_the_output_and_holds_the_rows(cli: Any, together: Together, finished: Path) -> None:
    ran = cli("bench", together.suite, "-o", finished, "--json")
    assert (ran.code, ran.err) == (0, "")
    content = json.loads(ran.out)
    assert set(content) == {"folder", "report", "rows"}
    assert content["report"] == str(finished / "report.html")
    assert content["rows"] == [json.loads(line) for line in (finished / "rows.jsonl").read_text().splitlines()]
    assert {row["level"] for row in content["rows"]} == {None, "merged", "ensembled"}
    assert {"part", "setting", "data_budget", "model_hash", "recipe_hash"} <= set(content["rows"][0])


def test_the_run_ends_with_the_averages_of_every_group_and_the_series(
    cli: Any, together: Together, finished: Path
) -> None:
    ran = cli("bench", together.suite, "-o", finished)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line for line in lines if line.endswith(", 2 experts")][:3] == [
        TURNED,
        "Linear, 2 experts",
        "Conv, 2 experts",
    ]
    assert lines.count(next(line for line in lines if line.split() == ["mer.", "ens.", "gap", "of", "experts"])) >= 1
    shown = [line for line in lines if line.startswith("Simple averaging ")]
    assert shown[0].split() == ["Simple", "averaging", "50.0", "50.0", "0.0", "50.0"]
    assert lines[-1].startswith("0 numbers computed in ")


def test_quiet_prints_nothing(cli: Any, together: Together, finished: Path) -> None:
    ran = cli("bench", together.suite, "-o", finished, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "nonsense"], "smelt: no method of the suite named 'nonsense'"),
        (["--methods", "neulig-suprvised"], "(did you mean 'neulig-supervised'?)"),
        (["--tasks", "photos"], "smelt: tasks: the groups of neulig name theirs; choose with methods"),
        (["--dtype", "bfloat16"], "smelt: dtype: neulig compares models to the last digit"),
        (["--device", "quantum"], "quantum"),
        (["--limit", "0"], "limit"),
        (["--keep-models"], "keep_models"),
    ],
)
def test_a_wrong_word_for_the_shipped_suite_ends_with_two(
    cli: Any, tmp_path: Path, words: list[str], message: str
) -> None:
    ran = cli("bench", "neulig", "-o", tmp_path / "out", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not (tmp_path / "out").exists()


def test_a_suite_with_one_expert_ends_with_two(cli: Any, changed: Any, tmp_path: Path) -> None:
    suite = changed(**{**ALONE, "groups": {TURNED: {"pool": "Turned", "experts": ["plain"]}}})
    ran = cli("bench", suite, "-o", tmp_path / "out")
    assert (ran.code, "at least 2 items" in ran.err) == (2, True)


def test_another_limit_in_the_same_folder_ends_with_two(cli: Any, together: Together, finished: Path) -> None:
    ran = cli("bench", together.suite, "-o", finished, "--limit", 13)
    assert (ran.code, "was begun with limit 12 instead of 13" in ran.err) == (2, True)


def test_a_command_that_a_row_tells_is_taken_back(cli: Any, together: Together, finished: Path) -> None:
    """`smelt bench NAME --methods …` with the suite's file for its name: the words are the command line's own."""
    commands = {row.command for row in together.rows(variant="published")} | {
        row.command for row in together.rows(variant="curve")
    }
    methods = sorted(command.split("--methods ")[1] for command in commands)
    ran = cli("bench", together.suite, "-o", finished, "--methods", ",".join(methods), "--quiet")
    assert (ran.code, ran.err) == (0, "")
