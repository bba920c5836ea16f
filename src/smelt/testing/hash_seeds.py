"""Digests of merges under other hash seeds: one fresh interpreter per seed, which merges with every stage at once.

Starting torch takes longer than all the merges together, so a process works off all stages that are registered when
the first one is asked for, and its answers are kept.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from smelt.methods import Stage, stages

__all__ = ["HASH_SEEDS", "digest_under", "main"]

HASH_SEEDS = (0, 1, 2)
FAILED = "failed:"

_KNOWN: dict[tuple[int, str, str, str], str] = {}


def digest_under(seed: int, stage: Stage, parameters: Mapping[str, Any]) -> str:
    """The digest of a pico pool merged by the stage in an interpreter with this hash seed."""
    if _place(seed, stage, parameters) not in _KNOWN:
        wanted = [(stage, dict(parameters))]
        wanted += [(other, {}) for other in stages.values() if _place(seed, other, {}) not in _KNOWN]
        _run_all(wanted)
    found = _KNOWN[_place(seed, stage, parameters)]
    assert not found.startswith(FAILED), (
        f"{stage.name} failed in a fresh interpreter with PYTHONHASHSEED={seed}, where importing "
        f"{stage.function.__module__} has to register it ({found})"
    )
    return found


def _place(seed: int, stage: Stage, parameters: Mapping[str, Any]) -> tuple[int, str, str, str]:
    return seed, stage.function.__module__, stage.name, json.dumps(dict(parameters), sort_keys=True)


def _run_all(wanted: list[tuple[Stage, dict[str, Any]]]) -> None:
    """Ask all seeds side by side."""
    request = json.dumps([[stage.function.__module__, stage.name, parameters] for stage, parameters in wanted])
    command = [sys.executable, "-c", "from smelt.testing.hash_seeds import main; main()"]
    running = {
        seed: subprocess.Popen(
            command,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for seed in HASH_SEEDS
    }  # fmt: skip
    for seed, process in running.items():
        answer, complaint = process.communicate(request)
        if process.returncode:
            raise AssertionError(f"the merges under PYTHONHASHSEED={seed} failed:\n{complaint[-2000:]}")
        for (stage, parameters), found in zip(wanted, json.loads(answer), strict=True):
            _KNOWN[_place(seed, stage, parameters)] = found


def main() -> None:
    """Read which stages to merge with from stdin; write their digests to stdout."""
    import torch

    from smelt.testing.pico import digest
    from smelt.testing.trial import merged_by, pool_for

    torch.set_num_threads(1)
    digests = []
    for module, name, parameters in json.load(sys.stdin):
        try:
            importlib.import_module(module)
            stage = stages[name]
            digests.append(digest(merged_by(stage, pool_for(stage), words={"threads": 1}, **parameters)))
        except (AssertionError, ImportError, KeyError) as error:
            digests.append(f"{FAILED} {type(error).__name__}: {error}")
    json.dump(digests, sys.stdout)
