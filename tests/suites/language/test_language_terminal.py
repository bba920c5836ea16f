"""The table of a language suite in the terminal: scores by domain, what was kept and forgotten, and what it cost."""

from __future__ import annotations

from typing import Any

import pytest

from smelt.evaluation.row import CostRow, Row
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.pages import show_language

SAME = dict.fromkeys(("code", "device", "command", "when"), "x")
LANGUAGE = Language(
    domains={"maths": ("sums", "stories"), "safety": ("harm",)},
    general=("facts",),
    experts={"maths": "expert-maths", "safety": "expert-safety"},
    base="pretrained",
    multitask=None,
    entries=("ties",),
)


def row(entry: str, variant: Any, label: str, task: str, score: float) -> Row:
    words: dict[str, Any] = {"model": "x", "model_hash": "x", "dtype": "x", "task_version": 1, "split": "test", "n": 10}
    scores = {"accuracy": score, "low": score, "high": score}
    return Row(entry=entry, variant=variant, label=label, task=task, **words, **scores, **SAME)


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The printed lines by the first word of their names, cells as words."""
    monkeypatch.delenv("COLUMNS", raising=False)
    table = {
        ("pretrained", "reference", "Base"): {"sums": 0.2, "stories": 0.0, "harm": 0.1, "facts": 0.5},
        ("expert-maths", "reference", "Expert: maths"): {"sums": 0.8, "stories": 0.4},
        ("expert-safety", "reference", "Expert: safety"): {"harm": 0.5},
        ("ties", "tuned", "TIES"): {"sums": 0.4, "stories": 0.2, "harm": 0.5, "facts": 0.4},
    }
    rows = [row(*who, task, score) for who, scores in table.items() for task, score in scores.items()]
    cost = {"prepare_seconds": 2.0, "merge_seconds": 3.5, "validate_seconds": 60.0, "trials": 30}
    cost |= {"evaluate_seconds": 9.0, "peak_bytes": 600_000_000, "threads": 2}
    show_language(rows, [CostRow(entry="ties", variant="tuned", **cost, **SAME)], LANGUAGE)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {words[0]: words[1:] for words in printed}


def test_the_heads_name_domains_then_averages_then_costs(lines: dict[str, list[str]]) -> None:
    assert "maths" in lines
    heads = ["safety", "avg", "norm", "general", "algorithm", "s", "validation", "s", "trials", "peak", "MB"]
    assert lines["maths"] == heads


def test_a_method_shows_raw_scores_shares_and_seconds(lines: dict[str, list[str]]) -> None:
    """Maths (0.4 + 0.2) / 2 of the expert's 0.6 is a half, safety all of it; facts 0.4 of the base's 0.5."""
    assert lines["TIES"] == ["(tuned)", "30.0", "50.0", "40.0", "75.0", "80.0", "5.5", "60.0", "30", "600"]


def test_references_cost_nothing(lines: dict[str, list[str]]) -> None:
    assert lines["Base"][-5:] == ["10.0", "10.0", "10.0", "18.3", "100.0"]
    assert lines["Experts"] == ["60.0", "50.0", "55.0", "100.0"]
