"""`smelt bench uqmerge` against the stand-in hub: LLaVA's own layout, lmms-eval's data, the paper's numbers beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stand_in_hub import StandInHub
from stand_in_hub.published.uqmerge import EXPERTS, add_uqmerge, save_experts, save_oodcv

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed (see docs/how-to/multimodal.md)")


@pytest.fixture
def place(tmp_path: Path, stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the paper's ten fine-tunes and OOD-CV; everything else is on the hub."""
    from smelt.tasks.lmms import harness
    from smelt.tasks.questions.oodcv import write_oodcv

    add_uqmerge(stand_in.contents)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")  # lmms-eval asks for one, also where data are public
    monkeypatch.chdir(tmp_path)
    save_experts(tmp_path / "uqmerge" / "models")
    write_oodcv(*save_oodcv(tmp_path / "files"), tmp_path / "uqmerge" / "oodcv")
    harness.parts.cache_clear()
    return tmp_path


def report_of(folder: Path) -> str:
    return (folder / "report.html").read_text()


def test_the_paper_s_setting_runs_with_few_questions(place: Path, cli: Callable[..., Any]) -> None:
    ran = cli("bench", "uqmerge", "--preset", "fast", "--limit", "1", "-o", "run", "--quiet")
    assert ran.code == 0, ran.err
    page = report_of(place / "run")
    assert "Table 7: uncertainty of every model on the held-in sets, three times" in page
    assert "0.1802" in page  # OKVQA on SeedBench, as printed
    assert "50.39" in page  # UQ-Merge on OKVQA, as printed
    about = json.loads((place / "run" / "analyses" / "selection.json").read_text())
    assert tuple(about["models"]) == EXPERTS
    printed = json.loads((place / "run" / "analyses" / "published.json").read_text())["tables"]
    own = printed[0]["lines"]["ours"]
    assert f"{own['entry']}@{own['part']}" == about["chosen"]["who"] or own["entry"] == about["chosen"]["who"]
