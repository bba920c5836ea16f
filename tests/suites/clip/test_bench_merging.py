"""A merge in a process of its own: what it cost, how it fails, and that nothing outlives a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
from smelt.errors import RecipeError
from smelt.evaluation.row import CostRow, read_rows
from smelt.suites.merge_process import merge_in_process
from smelt.suites.run import BenchResult


@pytest.fixture
def recipe(two: tuple[Path, Path, Path], tmp_path: Path) -> Any:
    """`recipe(ties={...})` writes a recipe of two models."""

    def write(**merge: Any) -> Path:
        base, *models = map(str, two)
        content = {"pool": {"base": base, "models": dict(zip("ab", models, strict=True))}, "merge": merge}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    return write


def test_a_merge_has_a_folder_a_time_and_a_peak_of_memory(recipe: Any, tmp_path: Path) -> None:
    began = time.perf_counter()
    done = merge_in_process(recipe(average={}), tmp_path / "out", threads=1)
    assert 0 < done.seconds <= time.perf_counter() - began
    assert 50e6 < done.peak_bytes < 5e9  # of the whole process: Python and torch at least
    assert smelt.verify(done.folder).ok
    assert done.folder == tmp_path / "out"


def test_a_merge_that_fails_names_its_recipe_and_the_reason(recipe: Any, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^mine\.yaml: ties has no parameter 'densty'"):
        merge_in_process(recipe(ties={"densty": 0.2}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_suite_that_is_killed_goes_on_and_gives_the_rows_of_an_undisturbed_one(
    root: Path, whole: BenchResult, tmp_path: Path
) -> None:
    """kill -9 while the second merge runs; the second command computes only what is missing."""
    suite = yaml.safe_load((root / "pico.yaml").read_text())
    suite["tasks"] = [str(root / "tasks" / name) for name in suite["tasks"]]
    del suite["entries"]["emr_masks"]
    suite["entries"]["task_arithmetic"]["tune"] = False
    suite["paths"] = []
    path, rows = tmp_path / "pico.yaml", tmp_path / "out" / "rows.jsonl"
    path.write_text(yaml.safe_dump(suite))
    command = [sys.executable, "-c", "from smelt.cli import main; main()", "bench", str(path)]
    child = subprocess.Popen([*command, "-o", str(rows.parent), "--quiet"], start_new_session=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and child.poll() is None:
        if rows.exists() and b'"average"' in rows.read_bytes():
            break
        time.sleep(0.05)
    assert child.poll() is None, "it was over before it could be killed"
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    before = len([row for row in read_rows(rows) if not isinstance(row, CostRow)])
    assert before == 8  # three references and one merge on two tasks
    done = smelt.bench(path, out=rows.parent)
    assert done.computed == 2
    kept = {"pretrained", "expert-plain", "expert-turned", "average", "task_arithmetic"}
    drop = {"when", "command"}
    assert [row.model_dump(exclude=drop) for row in done.rows if not isinstance(row, CostRow)] == [
        row.model_dump(exclude=drop)
        for row in whole.rows
        if not isinstance(row, CostRow) and row.entry in kept and row.variant in ("reference", "published")
    ]
    costs = [row for row in done.rows if isinstance(row, CostRow)]
    assert all(cost.merge_seconds > 0 and cost.peak_bytes > 50e6 for cost in costs)
    assert not list((rows.parent / "models").iterdir())


def test_the_peak_of_a_merge_is_its_own_and_not_that_of_the_process_that_asked(recipe: Any, tmp_path: Path) -> None:
    small = merge_in_process(recipe(average={}), tmp_path / "before", threads=1).peak_bytes
    ballast = bytearray(2 * small)
    ballast[::4096] = b"x" * len(ballast[::4096])  # every page is really there
    assert merge_in_process(recipe(average={}), tmp_path / "after", threads=1).peak_bytes < 1.2 * small
