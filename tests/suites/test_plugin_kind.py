"""A sixth kind of suite, from a distribution of its own: a folder and an entry point, and no edit elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PLUGIN = Path(__file__).parents[2] / "docs" / "examples" / "suite_plugin"


@pytest.fixture
def smelt_with_plugin(tmp_path: Path) -> Any:
    """`run("bench", ...)` is the command line where the plug-in is installed."""
    note = tmp_path / "site" / "smelt_quorum-0.1.0.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: smelt-quorum\nVersion: 0.1.0\n")
    (note / "entry_points.txt").write_text("[smelt.suites]\nquorum = quorum.kind\n")
    path = os.pathsep.join(filter(None, [str(note.parent), str(PLUGIN), os.environ.get("PYTHONPATH")]))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from smelt.cli import main; main()", *map(str, words)]
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, cwd=tmp_path
        )

    return run


def test_a_sixth_kind_is_run_resumed_and_reported(smelt_with_plugin: Any, tmp_path: Path) -> None:
    suite, out = PLUGIN / "quorum" / "five-voters.yaml", tmp_path / "out"
    first = smelt_with_plugin("bench", suite, "-o", out)
    assert first.returncode == 0, first.stderr
    assert "[ 6/6] Quorum: 100.0 %" in first.stderr
    assert "6 numbers computed" in first.stdout
    assert json.loads((out / "run.json").read_text())["kind"] == "quorum"
    rows = (out / "rows.jsonl").read_text()
    again = smelt_with_plugin("bench", "five-voters", "-o", out, "--quiet")  # by its name, too
    assert (again.returncode, again.stdout, (out / "rows.jsonl").read_text()) == (0, "", rows)
    kept = [line for line in rows.splitlines() if '"ben"' not in line.partition('"label"')[0]]
    (out / "rows.jsonl").write_text("\n".join(kept) + "\n")
    resumed = smelt_with_plugin("bench", suite, "-o", out)
    assert "1 numbers computed" in resumed.stdout
    assert "anna:  66.7 % (there already)" in resumed.stderr
    page = out / "report.html"
    page.unlink()
    reported = smelt_with_plugin("report", out)
    assert reported.returncode == 0, reported.stderr
    assert "The best voter alone is right in 67 % of the questions, the quorum in 100 %." in page.read_text()


def test_a_folder_of_the_sixth_kind_that_was_begun_otherwise_is_refused(smelt_with_plugin: Any, tmp_path: Path) -> None:
    content = yaml.safe_load((PLUGIN / "quorum" / "five-voters.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert smelt_with_plugin("bench", "mine.yaml", "-o", "out", "--quiet").returncode == 0
    content["voters"]["dora"][0] = "yes"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    refused = smelt_with_plugin("bench", "mine.yaml", "-o", "out")
    assert refused.returncode == 2
    assert "was begun with another dora among the models" in refused.stderr


def test_without_the_plug_in_its_kind_is_not_known(tmp_path: Path) -> None:
    from smelt.errors import RecipeError
    from smelt.suites.find import find_suite

    with pytest.raises(RecipeError, match=r"no kind of suite named 'quorum'"):
        find_suite(PLUGIN / "quorum" / "five-voters.yaml")
