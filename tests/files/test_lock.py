"""One run at a time: who has just been killed is waited for, who goes on is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import smelt
from smelt.engine.sink.output import partial_folder
from smelt.files import writing
from smelt.files.writing import try_lock

_HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A file that another process holds until it is killed."""
    path = partial_folder(tmp_path / "out") / "journal.jsonl"
    path.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield path, child
        child.kill()


def test_one_that_dies_meanwhile_is_waited_for(held: tuple[Path, subprocess.Popen[bytes]]) -> None:
    path, child = held
    descriptor = os.open(path, os.O_RDWR)
    threading.Timer(0.3, child.kill).start()
    assert try_lock(descriptor)
    assert child.wait() == -9
    os.close(descriptor)


def test_one_that_goes_on_keeps_it(held: tuple[Path, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = held
    monkeypatch.setattr(writing, "_PATIENCE", 0.2)
    descriptor = os.open(path, os.O_RDWR)
    assert not try_lock(descriptor)
    os.close(descriptor)


def test_a_merge_begins_while_the_killed_one_before_it_still_dies(
    held: tuple[Path, subprocess.Popen[bytes]], two: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, child = held
    threading.Timer(0.3, child.kill).start()
    assert smelt.merge(list(two[1:]), out=tmp_path / "out").tensors == 6
