"""Plug-ins of tests/data/plugins as installed distributions, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).parents[1] / "data" / "plugins"


def run_with_plugins(script: str, site: Path, entry_points: Mapping[str, Mapping[str, str]]) -> Any:
    """What a script that ends with `said = ...` says, where a distribution in `site` has these entry points.

    `entry_points` are {group: {name: module}}.
    """
    note = site / "made_up_plugins-1.0.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up-plugins\nVersion: 1.0\n")
    lines = [
        line for group, own in entry_points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in own.items()))
    ]
    (note / "entry_points.txt").write_text("\n".join(lines) + "\n")
    path = os.pathsep.join([str(site), str(PLUGINS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{script}\nprint(json.dumps(said))"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
