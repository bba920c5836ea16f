"""What the parser of the command line cannot read is answered like any other mistake, and so is Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mrge"], "smelt: no command named 'mrge' (did you mean 'merge'?); see `smelt --help`"),
        (
            ["analyse", "cosin"],
            "smelt: no command of `smelt analyse` named 'cosin' (did you mean 'cosine'?); see `smelt analyse --help`",
        ),
        (
            ["merge", "--modle", "x"],
            "smelt: `smelt merge` has no flag '--modle' (did you mean '--model'?); see `smelt merge --help`",
        ),
        (
            ["merge", "--density", "0.2"],
            "smelt: `smelt merge` has no flag '--density'; a method's parameter is given with `--set density=VALUE`",
        ),
        (["--versoin"], "smelt: `smelt` has no flag '--versoin' (did you mean '--version'?); see `smelt --help`"),
        (["eval"], "smelt: `smelt eval`: missing argument 'MODEL'; see `smelt eval --help`"),
        (["merge", "--model"], "smelt: option '--model' requires an argument"),
    ],
)
def test_a_mistyped_command_line_gets_one_line_with_the_nearest_name(cli, words, said):
    ran = cli(*words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"{said}\n")


def test_a_value_of_the_wrong_kind_names_its_flag(cli):
    ran = cli("merge", "--threads", "many")
    assert ran.code == 2
    assert ran.err.startswith("smelt: `smelt merge`: invalid value for '--threads': ")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc for what a process has open")
@pytest.mark.parametrize("kind", ["blake3", "sha256"])
def test_ctrl_c_is_told_in_one_line_by_every_command(tmp_path, kind):
    folder = tmp_path / "merged"
    folder.mkdir()
    weights = folder / "model.safetensors"
    with open(weights, "wb") as file:
        file.truncate(200_000_000_000)  # zeros that take no room on the disk, and minutes to hash
    entry = {kind: "0" * 64, "bytes": 200_000_000_000}
    (folder / "manifest.json").write_text(json.dumps({"files": {weights.name: entry}}))
    process = subprocess.Popen(
        [sys.executable, "-c", "from smelt.cli import process; process()", "verify", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_until_it_reads(process, weights)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (1, "", "smelt: interrupted\n")


def _wait_until_it_reads(process, path):
    until = time.monotonic() + 120
    opened = f"/proc/{process.pid}/fd"
    while not any(os.path.realpath(f"{opened}/{one}") == str(path) for one in os.listdir(opened)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
