from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError

from smelt import __version__
from smelt.compat.fusionbench.report import fusionbench_report
from smelt.errors import CorruptFile
from smelt.evaluation.row import CostRow, Row, append_rows, code_version, now, read_rows
from smelt.recipe.schema import DataBudget


def row(**words: object) -> Row:
    known = {
        "entry": "ties", "label": "TIES", "task": "photos", "task_version": 1, "split": "test", "n": 4, "correct": 3,
        "accuracy": 0.75, "low": 0.3, "high": 0.95, "loss": 0.5, "model": "merged", "model_hash": "ab", "code": "1",
        "device": "cpu", "dtype": "float32", "command": "smelt eval", "when": now(),
    }  # fmt: skip
    return Row(**{**known, **words})


def cost(**words: object) -> CostRow:
    known = {"entry": "ties", "merge_seconds": 0.5, "evaluate_seconds": 2.0, "peak_bytes": 10, "threads": 2}
    return CostRow(**{**known, "device": "cpu", "code": "1", "command": "x", "when": now(), **words})


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    rows = [
        row(setting={"density": 0.2}, recipe={"merge": ["ties"]}, data_budget=DataBudget(split="val", images=5)),
        cost(),
    ]
    append_rows(path, rows[:1])
    append_rows(path, rows[1:])
    assert read_rows(path) == rows
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["accuracy", "cost"]


def test_a_line_torn_by_a_kill_is_left_out_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_rows(path, [row(task="photos"), row(task="digits")])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [one.task for one in read_rows(path)] == ["photos"]
    append_rows(path, [row(task="flags")])
    assert [one.task for one in read_rows(path)] == ["photos", "flags"]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_rows(path, [row(task="photos")])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    append_rows(path, [row(task="flags")])
    assert [one.task for one in read_rows(path)] == ["photos", "flags"]


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_rows(path, [row(), row()])
    path.write_bytes(b"{torn\n" + path.read_bytes())
    with pytest.raises(CorruptFile, match=r"rows\.jsonl, line 1: not readable as JSON"):
        read_rows(path)


@pytest.mark.parametrize("content", ['{"kind": "speed"}', "[1]", '{"kind": "cost", "entry": "x"}'])
def test_json_that_is_no_row_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(content + "\n")
    with pytest.raises(CorruptFile, match="line 1: not a row"):
        read_rows(path)


def test_rows_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append_rows(path, [row(seed=n, setting={"x": "y" * 5000})]), range(40)))
    assert sorted(one.seed for one in read_rows(path)) == list(range(40))


@pytest.mark.parametrize("words", [{"accuracy": 1.5}, {"loss": float("nan")}, {"variant": "best"}, {"colour": "red"}])
def test_a_row_with_a_senseless_word_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        row(**words)


def test_the_code_version_names_the_commit_of_a_working_tree() -> None:
    assert re.fullmatch(re.escape(__version__) + r"(\+g[0-9a-f]{7,}(\.dirty)?)?", code_version())


def test_the_report_has_fusionbenchs_shape_and_a_provenance_block() -> None:
    report = fusionbench_report(
        [row(task="photos", accuracy=0.5, loss=1.0), row(task="digits", accuracy=0.75, loss=0.5)]
    )
    assert report["photos"] == {"accuracy": 0.5, "loss": 1.0}
    assert report["average"] == {"accuracy": 0.625, "loss": 0.75}
    assert list(report) == ["photos", "digits", "average", "provenance"]
    assert report["provenance"]["model_hash"] == "ab"
    assert report["provenance"]["tasks"]["digits"]["n"] == 4


def test_what_rows_do_not_share_is_not_in_the_provenance() -> None:
    report = fusionbench_report([row(seed=1), row(seed=2, task="digits")], {"note": "two seeds"})
    assert "seed" not in report["provenance"]
    assert report["provenance"]["note"] == "two seeds"


def test_a_row_of_before_language_tasks_still_reads_and_a_language_row_needs_no_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    old = json.loads(row().model_dump_json())
    del old["metric"]
    path.write_text(json.dumps(old) + "\n")
    append_rows(path, [row(metric="chrf", correct=None, loss=None), cost(validate_seconds=3.5, trials=10)])
    first, second, third = read_rows(path)
    assert isinstance(first, Row)
    assert first.metric == "accuracy"
    assert isinstance(second, Row)
    assert (second.metric, second.correct, second.loss) == ("chrf", None, None)
    assert isinstance(third, CostRow)
    assert (third.validate_seconds, third.trials) == (3.5, 10)


def test_a_report_has_no_mean_of_losses_that_are_not_all_there() -> None:
    report = fusionbench_report([row(task="photos"), row(task="words", loss=None)])
    assert report["average"] == {"accuracy": 0.75, "loss": None}
