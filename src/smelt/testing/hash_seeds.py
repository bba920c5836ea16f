"""Digests of merges under other hash seeds: one interpreter of its own per seed, which merges with every stage at once.

Starting torch takes longer than all the merges together, so a process works off all stages that are registered when
the first one is asked for, its answers are kept, and it waits for stages that are registered later.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
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
    asked = {seed: _interpreter(seed) for seed in HASH_SEEDS}
    for one in asked.values():
        one.ask(request)
    for seed, one in asked.items():
        for (stage, parameters), found in zip(wanted, one.answer(), strict=True):
            _KNOWN[_place(seed, stage, parameters)] = found


class _Interpreter:
    """A Python with a hash seed that answers requests, a line each, until its standard input is closed."""

    def __init__(self, seed: int, path: str) -> None:
        self.path, self._seed = path, seed
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads could fill up
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from smelt.testing.hash_seeds import main; main()"],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True,
        )  # fmt: skip

    def ask(self, request: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, which is said below
            self._process.stdin.write(f"{request}\n")
            self._process.stdin.flush()

    def answer(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            del _INTERPRETERS[self._seed]
            self._process.communicate()
            self._complaints.seek(0)
            complaint = self._complaints.read()[-2000:]
            raise AssertionError(f"the merges under PYTHONHASHSEED={self._seed} failed:\n{complaint}")
        return list(json.loads(line))

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
        self._complaints.close()


_INTERPRETERS: dict[int, _Interpreter] = {}


def _interpreter(seed: int) -> _Interpreter:
    """The one that waits, if it finds the modules that this process finds."""
    path = os.pathsep.join(filter(None, sys.path))
    known = _INTERPRETERS.get(seed)
    if known is None or known.path != path:
        if known is not None:
            known.end()
        _INTERPRETERS[seed] = _Interpreter(seed, path)
    return _INTERPRETERS[seed]


@atexit.register
def _end_all() -> None:
    for one in _INTERPRETERS.values():
        one.end()


def main() -> None:
    """Read which stages to merge with from stdin, a request a line; write their digests to stdout, a line each."""
    import torch

    from smelt.testing.pico import digest
    from smelt.testing.trial import merged_by, pool_for

    torch.set_num_threads(1)
    for request in sys.stdin:
        digests = []
        for module, name, parameters in json.loads(request):
            try:
                importlib.import_module(module)
                stage = stages[name]
                digests.append(digest(merged_by(stage, pool_for(stage), words={"threads": 1}, **parameters)))
            except (AssertionError, ImportError, KeyError) as error:
                digests.append(f"{FAILED} {type(error).__name__}: {error}")
        sys.stdout.write(f"{json.dumps(digests)}\n")
        sys.stdout.flush()
