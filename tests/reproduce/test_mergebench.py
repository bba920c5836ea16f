"""MergeBench's own setting by its own command, against a hub with its public names and small models and data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smelt.evaluation.row import Row, read_rows
from smelt.tasks.language import library_task as library
from stand_in_hub import StandInHub
from stand_in_hub.published.mergebench import add_mergebench
from stand_in_hub.server import TOKEN

pytest.importorskip("lm_eval")


FOLDERS = (
    "ifeval gsm8k hendrycks_math okapi humaneval mbpp lambada mmlu/default triviaqa coqa pubmedqa squadv2 translation"
)


@functools.cache
def some_of_the_library() -> Any:
    """The harness's index of the folders that are needed here: that of all its 14,000 files takes many seconds."""
    import lm_eval.tasks

    home = Path(lm_eval.tasks.__file__).parent
    return lm_eval.tasks.TaskManager(include_path=[home / name for name in FOLDERS.split()], include_defaults=False)


@pytest.fixture
def hub(stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    """The hub with MergeBench's content, and a login for what is gated."""
    if stand_in.contents.find("models", "MergeBench/Llama-3.1-8B_math") is None:
        add_mergebench(stand_in.contents)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(library, "_manager", some_of_the_library)
    monkeypatch.setattr("nltk.download", lambda *_, **__: False)  # its own server; no prompt here needs its data
    return stand_in


def test_the_command_of_the_paper_gives_its_table_beside_ours(
    hub: StandInHub, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "--base",
        "Llama-3.1-8B",
        "--preset",
        "fast",
        "--methods",
        "average,task_arithmetic",
        "--executor",
        "inline",
    ]
    done = cli("bench", "mergebench", *words)
    assert done.code == 0, done.err
    folder = tmp_path / "mergebench-Llama-3.1-8B"
    rows = [row for row in read_rows(folder / "rows.jsonl") if isinstance(row, Row)]
    scores = {(row.entry, row.task): row.accuracy for row in rows if row.variant != "curve"}
    assert scores["task_arithmetic", "gsm8k_cot"] == 1.0  # 0.6 of a change that is twice as strong as the base
    assert scores["average", "gsm8k_cot"] == 0.0
    assert scores["pretrained", "squadv2"] == 0.5  # the answerable one of two
    assert scores["pretrained", "wmt14-fr-en@bleu"] == pytest.approx(1.0)
    page = (folder / "report.html").read_text()
    assert "Table 16" in page
    assert "48.7" in page  # the printed average of task arithmetic
