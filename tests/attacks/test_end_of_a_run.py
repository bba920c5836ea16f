"""The last moments of a run, when its output gets its name: another run must not take the place away from it.

The first run is a process that waits at one of its renames; the second comes while it waits.
"""

import subprocess
import sys
import time

import pytest

import smelt
from checkpoints import snapshot
from smelt.errors import OutputError
from smelt.files import writing

WAITING = """
import os, sys, time
from pathlib import Path

place, name, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
rename = os.rename

def wait():
    (place / "reached").touch()
    until = time.monotonic() + 300
    while not (place / "go on").exists() and time.monotonic() < until:
        time.sleep(0.01)

def waiting(old, new, **words):
    here = Path(new).name == name
    if here and when == "before":
        wait()
    rename(old, new, **words)
    if here and when == "after":
        wait()

os.rename = waiting
sys.argv[:4] = ["smelt"]
from smelt.cli import main
main()
"""


@pytest.fixture(autouse=True)
def _quickly_refused(monkeypatch):
    """The first run waits until it is told to go on, so nothing is gained by asking for its lock again and again."""
    monkeypatch.setattr(writing, "_PATIENCE", 0.2)


@pytest.fixture
def held(tmp_path, two):
    """`held(name, when, *words)` starts a merge to `out` that waits at the rename to `name`; ends it at the end."""
    started = []

    def start(name, when, *words):
        given = [word for model in two[1:] for word in ("--model", str(model))]
        command = [sys.executable, "-c", WAITING, str(tmp_path), name, when, "merge", *given, "-o", "out", *words]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        started.append(process)
        until = time.monotonic() + 300
        while not (tmp_path / "reached").exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / "reached").exists(), process.communicate()[1]
        return process

    yield start
    (tmp_path / "go on").touch()
    for process in started:
        process.communicate(timeout=300)


def end(tmp_path, process):
    """Let it go on; its exit status and what it said."""
    (tmp_path / "go on").touch()
    _, err = process.communicate(timeout=300)
    return process.returncode, err


@pytest.mark.parametrize("words", [{}, {"resume": True}, {"force": True}], ids=str)
def test_a_second_run_is_refused_until_the_output_of_the_first_has_its_name(tmp_path, two, held, words):
    first = held("out", "before")
    with pytest.raises(OutputError, match="another run is writing"):
        smelt.merge(list(two[1:]), out=tmp_path / "out", **words)
    assert end(tmp_path, first) == (0, "")
    assert smelt.verify(tmp_path / "out").ok
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_nor_may_it_undo_the_replacement_of_an_old_output(tmp_path, two, held, when):
    """The old output has stepped aside and the new one has no name yet: for a moment there is no output."""
    smelt.merge(list(two[1:]), out=tmp_path / "out")
    first = held(".out.smelt-old", when, "--force", "--dtype", "bfloat16")
    with pytest.raises(OutputError, match="another run is writing"):
        smelt.merge(list(two[1:]), out=tmp_path / "out", force=True)
    assert end(tmp_path, first) == (0, "")
    made = snapshot(tmp_path / "out")
    smelt.merge(list(two[1:]), out=tmp_path / "alone" / "out", dtype="bfloat16")
    assert made == snapshot(tmp_path / "alone" / "out")
    assert not list(tmp_path.glob(".out*"))


def test_a_run_killed_at_its_last_rename_is_resumed_with_all_it_had(tmp_path, two, held):
    first = held("out", "before")
    first.kill()
    first.communicate(timeout=300)
    assert smelt.merge(list(two[1:]), out=tmp_path / "out", resume=True).resumed == 6
    assert smelt.verify(tmp_path / "out").ok
    assert not list(tmp_path.glob(".out*"))


def test_a_run_killed_after_its_last_rename_leaves_a_whole_output(tmp_path, two, held):
    first = held("out", "after")
    first.kill()
    first.communicate(timeout=300)
    assert smelt.verify(tmp_path / "out").ok
    smelt.merge(list(two[1:]), out=tmp_path / "out", resume=True)
    assert not list(tmp_path.glob(".out*")), "what it left beside the output is cleared"
