"""A full disk: what is finished can be continued, the message says so, and an old output is still there."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

import smelt
from checkpoints import random_state, snapshot, state, write_model
from smelt.engine.sink.output import Journal
from smelt.errors import OutputError
from writes import full_after, on_every_write

SHAPES = {f"layers.{n}.w": (50, 20) for n in range(10)}


@pytest.fixture
def models(tmp_path):
    return [write_model(tmp_path / name, random_state(seed, SHAPES)) for seed, name in enumerate(("cars", "birds"))]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def assert_says_what_to_do(error, out):
    text = str(error)
    assert "disk is full" in text
    assert "resume=True" in text
    assert f".{out.name}.smelt-partial" in text
    assert error.exit_code == 1
    assert not out.exists()


@pytest.mark.parametrize("writes", [0, 1, 2, 5, 10])
def test_what_is_finished_is_kept_and_resume_completes_it(tmp_path, models, monkeypatch, writes):
    smelt.merge(models, out=tmp_path / "good" / "out")
    with monkeypatch.context() as patch:
        on_every_write(patch, full_after(writes))
        with pytest.raises(OutputError) as caught:
            smelt.merge(models, out=tmp_path / "out", threads=1)
    assert_says_what_to_do(caught.value, tmp_path / "out")
    done = smelt.merge(models, out=tmp_path / "out", resume=True)
    assert done.resumed == writes  # one for each of the ten tensors; the last write is the header
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "good" / "out")


def test_a_disk_that_fills_up_while_small_files_are_written(tmp_path, models, monkeypatch):
    from pathlib import Path

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OutputError) as caught:
            smelt.merge(models, out=tmp_path / "out")
    assert_says_what_to_do(caught.value, tmp_path / "out")
    assert smelt.merge(models, out=tmp_path / "out", resume=True).resumed == 10


def test_the_old_output_outlives_a_full_disk(tmp_path, models, monkeypatch):
    smelt.merge(models, out=tmp_path / "out")
    old = snapshot(tmp_path / "out")
    with monkeypatch.context() as patch:
        on_every_write(patch, full_after(3))
        with pytest.raises(OutputError, match="disk is full"):
            smelt.merge(models, method=("average", {"weights": [1, 2]}), out=tmp_path / "out", force=True)
    assert snapshot(tmp_path / "out") == old


def test_too_small_a_disk_is_refused_before_any_work(tmp_path, models, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    before = snapshot(tmp_path)
    with pytest.raises(OutputError, match=r"needs .* GB and .* has only"):
        smelt.merge(models, out=tmp_path / "out")
    assert snapshot(tmp_path) == before


LIMITED = """
import resource, sys
from pathlib import Path
import smelt
from smelt.engine.sink.sink import FolderSink

first, second, out, when = sys.argv[1:]
make = FolderSink.__init__

def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

def made(self, *words):
    make(self, *words)
    limit()

if when == "before":
    limit()
else:
    FolderSink.__init__ = made
try:
    smelt.merge([first, second], out=Path(out), threads=1)
except smelt.errors.OutputError as error:
    print(error)
"""


@pytest.mark.parametrize(("when", "finished"), [("before", 0), ("after", 4)])
def test_files_that_may_not_grow_so_large_are_told_and_what_is_finished_is_kept(tmp_path, models, when, finished):
    """The limit is 20,000 bytes: of ten tensors of 4,000 behind a header of fewer, four fit.

    Before the file is made it cannot get its size; afterwards whoever writes to it is told, also the vector machine.
    """
    pytest.importorskip("resource")
    smelt.merge(models, out=tmp_path / "good" / "out")
    command = [sys.executable, "-c", LIMITED, *models, tmp_path / "out", when]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    assert "it would be larger than a file may become here (ulimit -f)" in said
    assert f"what is finished is kept in {tmp_path / '.out.smelt-partial'}" in said
    assert not (tmp_path / "out").exists()
    assert smelt.merge(models, out=tmp_path / "out", resume=True).resumed == finished
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "good" / "out")


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 128 kB; the models need 40 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a real full disk needs root, to mount a small tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", place], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: a real full disk; this machine mounts no tmpfs ({mounted.stderr.strip()})")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place, leave):
    free = shutil.disk_usage(place).free
    (place / "filler").write_bytes(b"x" * max(free - leave, 0))


@pytest.mark.parametrize("leave", [0, 4096, 8192, 20480, 45056, 49152])
def test_a_disk_that_is_really_full(small_disk, tmp_path, models, monkeypatch, leave):
    smelt.merge(models, out=tmp_path / "good" / "out")
    fill(small_disk, leave)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage)  # as if it had filled up after the check
        with pytest.raises(OutputError) as caught:
            smelt.merge(models, out=small_disk / "out")
    assert_says_what_to_do(caught.value, small_disk / "out")
    (small_disk / "filler").unlink()
    smelt.merge(models, out=small_disk / "out", resume=True)
    assert snapshot(small_disk / "out") == snapshot(tmp_path / "good" / "out")


def test_a_disk_that_fills_up_under_the_journal(small_disk, tmp_path, monkeypatch):
    """Names so long that the journal needs fresh pages while the weights still fit."""
    long = {f"{'x' * 400}.{n}.w": (1,) for n in range(60)}
    models = [write_model(tmp_path / name, random_state(seed, long), None) for seed, name in enumerate(("a", "b"))]
    done, calls = Journal.done, []

    def filling(self, key):
        calls.append(key)
        if len(calls) == 5:
            fill(small_disk, 0)
        done(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "done", filling)
        with pytest.raises(OutputError) as caught:
            smelt.merge(models, out=small_disk / "out")
    assert_says_what_to_do(caught.value, small_disk / "out")
    (small_disk / "filler").unlink()
    assert smelt.merge(models, out=small_disk / "out", resume=True).resumed >= 5
    assert smelt.verify(small_disk / "out").ok


def test_an_output_that_is_a_mount_point_works_or_is_refused_before_any_work(small_disk, tmp_path):
    models = [write_model(tmp_path / name, state(value)) for name, value in (("cars", 1.0), ("birds", 3.0))]
    before = snapshot(tmp_path)
    try:
        smelt.merge(models, out=small_disk)
    except OutputError:
        assert snapshot(tmp_path) == before
        return
    assert smelt.verify(small_disk).ok
