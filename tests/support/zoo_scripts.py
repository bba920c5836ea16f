"""The zoo's build scripts in a process of their own: they are run, not imported, to keep their names apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "zoo" / "build"
IMPATIENT = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "60000", "PIP_RETRIES": "0"}


def build(code: str, **environment: str) -> str:
    """What a piece of Python among the build scripts prints."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=BUILD,
        env={**os.environ, **IMPATIENT, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    last = ran.stderr.strip().rpartition("\n")[2]
    if ran.returncode and last.startswith("fetch.Unreachable"):
        pytest.skip(f"THE ZOO'S PICTURES ARE NOT CHECKED: a package cannot be had ({last})")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
