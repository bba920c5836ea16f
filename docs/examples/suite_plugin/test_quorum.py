"""The kind in use: a run, the same run again, and the report."""

from __future__ import annotations

from pathlib import Path

import quorum.kind  # noqa: F401 - importing it registers the kind

import smelt


def test_three_that_err_on_different_questions_are_right_together(tmp_path: Path) -> None:
    done = smelt.bench("five-voters", out=tmp_path / "out", executor="inline")
    assert {row.entry: row.correct for row in done.rows} == {
        "anna": 4,
        "ben": 4,
        "cleo": 4,
        "dora": 0,
        "emil": 2,
        "quorum": 6,  # of anna, ben and cleo: each question has two of them on its side
    }
    assert "the quorum in 100 %" in done.report.read_text()
    again = smelt.bench("five-voters", out=tmp_path / "out", executor="inline")
    assert again.computed == 0
