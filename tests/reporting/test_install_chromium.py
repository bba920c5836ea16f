"""The script that brings a browser: with programs that only pretend, so that nothing is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "install-chromium.sh"


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    """`machine(id="echo 0", ...)` runs the script on a machine that has only these programs, given as shell lines."""

    def run(*words: str, browser: str = "", **programs: str) -> subprocess.CompletedProcess[str]:
        for name, line in programs.items():
            program = tmp_path / name.replace("_", "-")
            program.write_text(f'#!/bin/sh\necho "{program.name} $*" >> {tmp_path}/log\n{line}\n')
            program.chmod(0o755)
        environment = {"PATH": str(tmp_path), "SMELT_BROWSER": browser}
        return subprocess.run(["/bin/sh", SCRIPT, *words], env=environment, capture_output=True, text=True)

    return run


def log(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""


def test_where_a_browser_is_nothing_happens(machine: Any, tmp_path: Path) -> None:
    for words in ([], ["--check"]):
        ran = machine(*words, chromium="exit 0", apt_get="exit 0", id="echo 0")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert log(tmp_path) == ""


def test_a_check_installs_nothing(machine: Any, tmp_path: Path) -> None:
    assert machine("--check", apt_get="exit 0", id="echo 0").returncode == 1
    assert log(tmp_path) == ""


def test_root_installs_chromium_and_says_so(machine: Any, tmp_path: Path) -> None:
    makes = f"if [ $1 = install ]; then echo > {tmp_path}/chromium; /bin/chmod +x {tmp_path}/chromium; fi"
    ran = machine(apt_get=makes, id="echo 0")
    assert ran.returncode == 0
    assert "NO BROWSER" in ran.stderr
    assert "chromium is installed" in ran.stderr
    assert "apt-get update" in log(tmp_path)
    assert log(tmp_path).strip().endswith(" chromium")


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({"id": "echo 0"}, "there is no apt-get"),
        ({"id": "echo 1000", "apt_get": "exit 0"}, "not root and has no sudo"),
        ({"id": "echo 1000", "apt_get": "exit 0", "sudo": "exit 1"}, "not root and has no sudo"),
        ({"id": "echo 0", "apt_get": "exit 100"}, "apt-get could not install chromium"),
        ({"id": "echo 0", "apt_get": "exit 0", "browser": "nowhere"}, "'nowhere', which is not there"),
    ],
)
def test_what_cannot_be_done_is_a_loud_warning_and_no_failure(machine: Any, programs: dict[str, str], why: str) -> None:
    ran = machine(**programs)
    assert ran.returncode == 0
    (warning,) = [line for line in ran.stderr.splitlines() if "NOT BE CHECKED" in line]
    assert warning.startswith("WARNING: ")
    assert why in warning


def test_sudo_without_a_password_will_do(machine: Any, tmp_path: Path) -> None:
    machine(id="echo 1000", apt_get="exit 0", sudo="exit 0")
    assert "sudo -n DEBIAN_FRONTEND=noninteractive apt-get install" in log(tmp_path)
