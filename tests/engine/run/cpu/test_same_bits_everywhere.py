"""Every operation of the vector machine gives the same bits by all compilers, processors and systems that are at hand.

operations.c runs them all; what they are worth is held by test_backends_agree.py, on the processor that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # the machine is compiled for every vector, up to four times

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
MACHINE = ROOT / "src" / "smelt" / "engine" / "run" / "cpu"
SETUP = (ROOT / "setup.py").read_text()
FLAGS = re.findall(r'^FLAGS = "(.+)"\.split', SETUP, re.MULTILINE)[0].split()
MINGW_FLAGS = re.findall(r'^MINGW_FLAGS = \["(.+)"\]', SETUP, re.MULTILINE)
ARM, WINDOWS = "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc"


def printed(folder: Path, compiler: str, *more: str, run: tuple[str, ...] = ()) -> list[str]:
    program = folder / "operations.exe"
    words = [*FLAGS, f"-I{MACHINE}", *more, HERE / "operations.c", "-o", program, "-lm"]
    subprocess.run([compiler, *map(str, words)], check=True)
    quiet = {**os.environ, "WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    done = subprocess.run([*run, str(program)], check=True, capture_output=True, text=True, env=quiet)
    return done.stdout.splitlines()


def needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What they are in the library of this machine."""
    needs("cc")
    return printed(tmp_path_factory.mktemp("here"), "cc")


def test_each_operation_is_run_with_every_format_and_no_two_are_alike(here: list[str]) -> None:
    codes = [
        int(code) for code in re.findall(r"^    [A-Z_]+ = (\d+)", (MACHINE / "machine.c").read_text(), re.MULTILINE)
    ]
    assert [line.split()[:3] for line in here] == [[str(code), str(form), "0"] for code in codes for form in range(3)]
    assert len({line.split()[3] for line in here}) > len(codes)


def test_plain_code_gives_the_bits_of_the_vectors(here: list[str], tmp_path: Path) -> None:
    assert printed(tmp_path, "cc", "-O0") == here


def test_arm_gives_the_same_bits_with_neon(here: list[str], tmp_path: Path) -> None:
    needs(ARM, "aarch64-linux-gnu-objdump", "qemu-aarch64-static")
    assert printed(tmp_path, ARM, "-static", run=("qemu-aarch64-static",)) == here
    code = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", tmp_path / "operations.exe"], capture_output=True, text=True, check=True
    ).stdout
    assert len(re.findall(r"\tfmla\tv\d+\.4s", code)) > 10


def test_windows_gives_the_same_bits(here: list[str], tmp_path: Path) -> None:
    needs(WINDOWS, "wine")
    assert printed(tmp_path, WINDOWS, *MINGW_FLAGS, "-D__USE_MINGW_ANSI_STDIO=1", run=("wine",)) == here
