"""`smelt finetune`: flags, the plan, JSON, and the exit codes of what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pico_clip import random_clip, save_clip
from pico_training import write_colours


@pytest.fixture
def room(tmp_path: Path) -> Path:
    save_clip(random_clip(), tmp_path / "base")
    write_colours(tmp_path / "colours")
    return tmp_path


def test_flags_and_words_reach_the_recipe(cli: Callable[..., Any], room: Path) -> None:
    words = ("--steps", 2, "--batch", 4, "--lr", "1e-3", "--set", "validation.every=1", "--set", "schedule=linear")
    ran = cli("finetune", room / "base", "--tasks", room / "colours", "-o", room / "out", *words, "--json")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    assert said["recipe"]["schedule"] == "linear"
    assert [one["step"] for one in said["validations"]] == [1, 2]
    assert (said["steps"], said["recipe"]["batch"]) == (2, 4)


def test_a_dry_run_says_what_is_needed_and_writes_nothing(cli: Callable[..., Any], room: Path) -> None:
    words = ("--tasks", room / "colours", "-o", room / "out", "--recipe", "fusionbench-clip", "--dry-run")
    ran = cli("finetune", room / "base", *words)
    assert ran.code == 0, ran.err
    assert "4,000 of 32 examples" in ran.out
    assert not list(room.glob("*out*"))


def test_quiet_prints_nothing_and_an_existing_output_is_refused(cli: Callable[..., Any], room: Path) -> None:
    words = ("--tasks", room / "colours", "-o", room / "out", "--steps", 1, "--batch", 2, "--quiet")
    ran = cli("finetune", room / "base", *words)
    assert (ran.code, ran.out) == (0, "")
    ran = cli("finetune", room / "base", *words)
    assert ran.code == 1
    assert ran.err.startswith("smelt: ")
    assert "--force" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--steps", 1, "--set", "schedul=linear"), "did you mean 'schedule'"),
        (("--recipe", "fusionbench"), "no training recipe named 'fusionbench'"),
        ((), "say either steps or epochs"),
    ],
)
def test_a_bad_request_ends_with_two(cli: Callable[..., Any], room: Path, words: tuple[Any, ...], said: str) -> None:
    ran = cli("finetune", room / "base", "--tasks", room / "colours", "-o", room / "out", *words)
    assert ran.code == 2
    assert said in ran.err


def test_ctrl_c_keeps_the_steps_and_the_same_command_goes_on(cli: Callable[..., Any], room: Path) -> None:
    """A process of its own is stopped once it has saved a state; the second one ends like one that ran through."""
    words = ["finetune", room / "base", "--tasks", room / "colours", "--steps", 150, "--batch", 2]
    words += ["--save-every", 20, "--lr", "1e-3", "--quiet"]
    command = [
        sys.executable,
        "-c",
        "from smelt.cli import main; main()",
        *map(str, words),
        "-o",
        str(room / "stopped"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as process:
        until = time.monotonic() + 120
        while not list(room.glob(".stopped.smelt-training/checkpoint-*/trainer_state.json")):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "steps, which are kept in" in said
    assert not (room / "stopped").exists()
    assert cli(*words, "-o", room / "stopped").code == 0
    assert cli(*words, "-o", room / "through").code == 0
    for name in ("model.safetensors", "training.json"):
        assert (room / "stopped" / name).read_bytes() == (room / "through" / name).read_bytes()
