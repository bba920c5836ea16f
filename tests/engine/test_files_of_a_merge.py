"""How many files a reader of one merge meets. A new file on the way is a decision, not an accident."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.engine.run.cpu.machine import library

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "files_of_a_merge.py"
MOST = 71


@pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
def test_a_ties_merge_on_a_cpu_meets_few_files():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    files, crossings = map(int, re.fullmatch(r"(\d+) files; (\d+) crossings.*", done.stdout.splitlines()[-1]).groups())
    assert files <= MOST, done.stdout
    assert "engine/run/cpu/rules.py" in done.stdout, "the merge ran in the vector machine"
    assert 0 < crossings < 220
