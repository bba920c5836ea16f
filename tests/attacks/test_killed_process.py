"""A real process, a real kill -9 in the middle of its writing: --resume gives the bytes of an undisturbed run."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import smelt
from checkpoints import random_state, snapshot, write_model

TENSORS = 1500
SHAPES = {f"layers.{n}.weight": (100, 100) for n in range(TENSORS)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models of 60 MB in many tensors."""
    root = tmp_path_factory.mktemp("large")
    return [write_model(root / name, random_state(seed, SHAPES)) for seed, name in enumerate(("cars", "birds"))]


@pytest.fixture(scope="module")
def good(models, tmp_path_factory):
    root = tmp_path_factory.mktemp("good")
    smelt.merge(models, out=root / "out", shard_size="16MB")
    return snapshot(root / "out")


def start(models, out):
    words = [word for model in models for word in ("--model", str(model))]
    command = [sys.executable, "-c", "from smelt.cli import main; main()", "merge", *words, "-o", str(out)]
    return subprocess.Popen([*command, "--shard-size", "16MB"], stderr=subprocess.PIPE, text=True)


def finished_tensors(out):
    try:
        return (out.parent / f".{out.name}.smelt-partial" / "journal.jsonl").read_bytes().count(b"\n") - 1
    except FileNotFoundError:
        return -1


def stop(process, number, moment):
    """Send a signal as soon as `moment()` is true; whether the process was still running then."""
    until = time.monotonic() + 120
    while not moment() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.0005)
    running = process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=240)
    return running, err


def caught(models, out, number, moment):
    """Start a merge and stop it at a moment; once more where it was over before the signal came."""
    for _ in range(40):  # on a busy machine the watcher may sleep through the whole merge, again and again
        process = start(models, out)
        running, err = stop(process, number, moment)
        if running and not out.exists():
            return process, err
        shutil.rmtree(out, ignore_errors=True)
    raise AssertionError("the process was always faster than the signal")


@pytest.mark.parametrize("tensors", [0, 50, TENSORS // 3, TENSORS * 3 // 4])
def test_killed_while_tensors_are_written(tmp_path, models, good, tensors):
    out = tmp_path / "out"
    process, _ = caught(models, out, signal.SIGKILL, lambda: finished_tensors(out) >= tensors)
    assert process.returncode == -signal.SIGKILL
    before = finished_tensors(out)
    assert tensors <= before <= TENSORS
    done = smelt.merge(models, out=out, shard_size="16MB", resume=True)
    assert done.resumed == max(before, 0)
    assert snapshot(out) == good
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("file", ["README.md", "model.safetensors.index.json"])
def test_killed_while_the_small_files_are_written(tmp_path, models, good, file):
    out = tmp_path / "out"
    process, _ = caught(models, out, signal.SIGKILL, (tmp_path / ".out.smelt-partial" / "output" / file).exists)
    assert process.returncode == -signal.SIGKILL
    done = smelt.merge(models, out=out, shard_size="16MB", resume=True)
    assert done.resumed == TENSORS
    assert snapshot(out) == good


def test_without_resume_a_new_run_starts_clean(tmp_path, models, good):
    out = tmp_path / "out"
    caught(models, out, signal.SIGKILL, lambda: finished_tensors(out) >= 200)
    assert smelt.merge(models, out=out, shard_size="16MB").resumed == 0
    assert snapshot(out) == good


def test_ctrl_c_exits_with_1_and_says_how_to_go_on(tmp_path, models, good):
    out = tmp_path / "out"
    process, err = caught(models, out, signal.SIGINT, lambda: finished_tensors(out) >= 200)
    assert process.returncode == 1
    assert "interrupted" in err
    assert "--resume" in err
    assert ".out.smelt-partial" in err
    assert "Traceback" not in err
    assert not out.exists()
    assert smelt.merge(models, out=out, shard_size="16MB", resume=True).resumed >= 200
    assert snapshot(out) == good
