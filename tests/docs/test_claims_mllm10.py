"""The page of mllm10 is made of a run's files, and says so where there are none."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generators" / "mllm10.py"))
FILL = runpy.run_path(str(ROOT / "docs" / "generators" / "pages.py"))["fill"]
PAGE = (ROOT / "docs" / "results" / "mllm10.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a run that never was left: three experts, a hundred questions of each kind of set."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "report"))
    from made_up_selection import content, rows
    from smelt.evaluation.row import append_rows

    append_rows(tmp_path / "rows.jsonl", rows())
    (tmp_path / "run.json").write_text(json.dumps({"suite": "made-up@1", "limit": 100, "passes": 4, "dropout": 0.1}))
    (tmp_path / "analyses").mkdir()
    (tmp_path / "analyses" / "selection.json").write_text(json.dumps(content()))
    return tmp_path


def test_without_a_run_the_page_says_so_and_shows_no_number(tmp_path: Path) -> None:
    (blocks,) = MADE["blocks"](tmp_path).values()
    assert blocks.pop("mllm10-run").startswith("**The full run has not been made yet**")
    assert set(blocks.values()) == {""}
    assert MADE["files"](tmp_path) == {}


def test_with_a_run_that_paragraph_is_gone_and_what_was_run_is_said(folder: Path) -> None:
    page = FILL(PAGE, MADE["blocks"](folder)["results/mllm10.md"])
    assert "has not been made" not in page
    assert "UQ-Merge takes 2 of 3: b, a (the first local minimum" in page
    assert (
        "The run: made-up@1, 36 rows; 100 held-in questions of 1 set, 100 held-out questions of 1 set, "
        "100 validation questions of 1 set (at most 100 of each); 4 passes with dropout 0.1; 2 random groups for each "
        "method; device cpu, precision float32, seed 0, code 1, measured 2026-01-01." in page
    )


def test_tables_and_answers_are_the_report_s_own(folder: Path) -> None:
    blocks = MADE["blocks"](folder)["results/mllm10.md"]
    heads = re.findall(r"^### (.*)", blocks["mllm10-tables"], re.MULTILINE)
    assert re.findall(r"paper's Tables? (\d+)", " ".join(heads)) == ["1", "2", "3", "4", "6"]  # one perturbation: no 5
    assert heads[-1] == "Whom the average of all is better without"
    assert "| Linear | **67.5** | <u>52.5</u> | **56.9** | <u>55.6</u> |" in blocks["mllm10-tables"]
    assert len(re.findall(r"^### RQ\d", blocks["mllm10-questions"], re.MULTILINE)) == 4
    assert "- Only one perturbation was measured." in blocks["mllm10-questions"]
    assert "| 2: a | 0.2000 | 0.2000 (0.1900–0.2100) |" in blocks["mllm10-figures"]


def test_figures_are_pictures_that_the_page_shows(folder: Path) -> None:
    drawn = MADE["files"](folder)
    assert list(drawn) == ["results/figures/mllm10-trace.svg", "results/figures/mllm10-random.svg"]
    text = MADE["blocks"](folder)["results/mllm10.md"]["mllm10-figures"]
    for place, picture in drawn.items():
        assert f"]({place.removeprefix('results/')})" in text
        root = ElementTree.fromstring(picture)
        words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "models" in words
        assert root.findall(".//{http://www.w3.org/2000/svg}polyline")
