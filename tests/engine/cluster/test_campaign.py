"""A short campaign of faults; the record of a longer one is results/cluster_faults.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "cluster_faults.py"
pytest.importorskip("ray", reason="RAY IS NOT INSTALLED (pip install 'smelt[cluster]'): its nodes are not killed")


@pytest.mark.slow
def test_workers_nodes_and_drivers_die_or_hang_and_no_byte_changes(tmp_path: Path) -> None:
    words = ["--trials", "2", "--work", tmp_path / "work", "-o", tmp_path / "found.json"]
    subprocess.run([sys.executable, SCRIPT, *words], check=True, timeout=580)
    trials = json.loads((tmp_path / "found.json").read_text())["trials"]
    assert [one["kind"] for one in trials] == [kind for kind in ("worker", "node", "driver", "hang") for _ in range(2)]
    assert all(one["equal"] for one in trials)
    assert all(one["deaths"] == 1 for one in trials if one["kind"] == "worker")
    assert all(one["driver_ended_with"] == -9 and one["resumed"] for one in trials if one["kind"] == "driver")
