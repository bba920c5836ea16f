"""The long demo ends with a table and a report, and a second run computes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo_full.py"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(DEMO), "--quick"], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder)


def test_the_demo_shows_the_table_and_where_the_report_is(first, folder):
    assert first.returncode == 0, first.stdout + first.stderr
    for word in ("Pre-trained", "Simple averaging", "TIES (sum)", "photos", "digits", "average"):
        assert word in first.stdout
    page = folder / "demo-out-full" / "report.html"
    assert "smelt hub serve" in first.stdout
    assert first.stdout.rstrip().endswith(str(page.resolve()))
    assert "TIES (sum)" in page.read_text(encoding="utf-8")


def test_the_demo_tunes_a_scale_on_other_pictures_than_it_reports(first, folder):
    assert first.returncode == 0
    rows = (folder / "demo-out-full" / "rows.jsonl").read_text(encoding="utf-8")
    assert re.search(r'"variant":"curve"[^\n]*"split":"val"', rows)
    assert not re.search(r'"variant":"curve"[^\n]*"split":"test"', rows)
    assert re.search(r'"variant":"tuned"[^\n]*"split":"test"', rows)


def test_a_second_run_computes_nothing(first, folder):
    assert first.returncode == 0
    assert re.findall(r"(\d+) numbers computed", run(folder).stdout) == ["0", "0"]
