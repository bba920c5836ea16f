"""The demo shows a small table and where the report is; stopped, it goes on; run again, it computes nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.suites.find import find_suite

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
SMALL = ["--tasks", "photos,digits", "--methods", "average,ties", "--limit", "20"]


def command(*words: str) -> list[str]:
    return [sys.executable, str(DEMO), *SMALL, *words]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def stopped(folder: Path) -> tuple[int, str, str]:
    """A demo that is told to stop when its first number is there, as Ctrl-C does: the whole group of processes."""
    own = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command(), cwd=folder, **own) as demo:
        assert demo.stderr is not None
        first = demo.stderr.readline()
        os.killpg(demo.pid, signal.SIGINT)
        _, told = demo.communicate()
    return demo.returncode, first, told


@pytest.fixture(scope="module")
def finished(stopped: tuple[int, str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder)


def test_the_suite_of_the_demo_is_a_part_of_clip8():
    demo, whole = find_suite(DEMO.with_suffix(".yaml")), find_suite("clip8")
    assert (demo.pool, demo.tasks, demo.include) == (whole.pool, whole.tasks, whole.include)
    for name, entry in demo.entries.items():
        assert entry.merge == whole.entries[name].merge
    assert {name: entry.data.examples for name, entry in demo.entries.items() if entry.data} == {"regmean": 64}


def test_a_demo_that_is_stopped_says_how_to_go_on_and_keeps_its_numbers(stopped, finished):
    code, first, told = stopped
    assert re.match(r"\[ 1/5\] Pre-trained:", first)
    assert code == 1
    assert told.rstrip().endswith("Stopped. Another `make demo` goes on from here.")
    assert "Traceback" not in told
    assert "Pre-trained" in finished.stderr.splitlines()[0]
    assert "there already" in finished.stderr.splitlines()[0]


def test_the_demo_ends_with_a_table_that_tells_the_story_and_the_path_of_the_report(finished, folder):
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    shown = [line for line in [*lines, *finished.stderr.splitlines()] if not line.startswith(("$", "The report:"))]
    assert max(map(len, shown)) <= 80  # paths may be longer
    table = {line[:22].rstrip(): line[22:] for line in lines if re.search(r"\d to \d", line)}
    assert table.keys() == {"Pre-trained", "Simple averaging", "TIES", "Fine-tuned experts"}
    for numbers in table.values():
        mean, low, high = map(float, re.match(r" *([\d.]+)[ *] +([\d.]+) to ([\d.]+)", numbers).groups())
        assert low < mean < high
    assert table["Pre-trained"].rstrip().endswith(" 0 %")
    assert table["Fine-tuned experts"].rstrip().endswith(f"100 % {'#' * 20}")
    page = folder / "demo-out" / "report.html"
    assert lines[-1] == f"The report: {page.resolve()}"
    assert "Simple averaging" in page.read_text(encoding="utf-8")
    assert "make demo-full" in finished.stdout


def test_the_numbers_of_the_table_are_those_of_the_rows(finished, folder):
    rows = [json.loads(line) for line in (folder / "demo-out" / "rows.jsonl").read_text().splitlines()]
    ties = [row["accuracy"] for row in rows if row["kind"] == "accuracy" and row["entry"] == "ties"]
    assert len(ties) == 2
    assert re.search(rf"TIES +{50 * sum(ties):.1f}", finished.stdout)


def test_a_second_demo_computes_nothing(finished, folder):
    again = run(folder)
    assert "0 numbers computed" in again.stdout
    assert [line for line in again.stdout.splitlines() if " to " in line] == [
        line for line in finished.stdout.splitlines() if " to " in line
    ]


@pytest.mark.parametrize("kind", ["another run", "no run", "a file"])
def test_something_else_in_the_place_of_the_folder_is_moved_aside(tmp_path: Path, kind: str):
    sys.path.insert(0, str(DEMO.parent))
    try:
        from demo import make_room
    finally:
        sys.path.remove(str(DEMO.parent))
    out = tmp_path / "demo-out"
    if kind == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        content = {"suite": "clip8@1", "limit": 200} if kind == "another run" else None
        (out / "run.json").write_text(json.dumps(content) if content else "{")
    before = out.read_text() if kind == "a file" else (out / "run.json").read_text()
    make_room(out, 200)
    assert not out.exists()
    aside = tmp_path / "demo-out-old-1"
    assert (aside if kind == "a file" else aside / "run.json").read_text() == before
    out.mkdir()
    make_room(out, 200)
    assert out.exists()
    (out / "run.json").write_text(json.dumps({"suite": "demo@1", "limit": 200}))
    make_room(out, 200)
    assert out.exists()
    make_room(out, 300)
    assert (tmp_path / "demo-out-old-2" / "run.json").exists()
