"""What all tests share: a cache of their own, and the command line run inside the test's process."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job; then no test could send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On Intel's processors the sums of MKL depend on where a matrix lies in memory, unless it is told otherwise before it
# is loaded. Tests compare rows of networks to the last bit. Elsewhere it does nothing.
os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

if not Path("/dev/nvidia0").exists():  # before Triton is loaded: kernels are then run by its interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")

sys.path.insert(0, str(Path(__file__).parent / "support"))
from stand_in_hub import StandInHub

# The Hub that all tests of this process meet, and its cache. Client libraries read these words when they are loaded.
_HUB = StandInHub().start()
_HUB_CACHE = tempfile.mkdtemp(prefix="smelt-test-hub-")
atexit.register(shutil.rmtree, _HUB_CACHE, ignore_errors=True)
os.environ |= {"HF_ENDPOINT": _HUB.url, "HF_HOME": _HUB_CACHE, "HF_HUB_DISABLE_TELEMETRY": "1"}
for _word in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE"):
    os.environ.pop(_word, None)

LONGEST = ("examples", "docs", "zoo", "compat")
"""Folders with the files that take longest: they come first, so that no worker is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(os.path.relpath(item.path, here).split(os.sep)[0], len(LONGEST)))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remembered hashes go to a folder of the test, never to the cache of whoever runs it."""
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path_factory.mktemp("smelt-cache")))


@pytest.fixture(scope="module")
def _empty_hub() -> None:
    """Files of tests do not meet each other's repositories, which may have the same public names."""
    _HUB.contents.clear()
    shutil.rmtree(
        Path(_HUB_CACHE) / "hub", ignore_errors=True
    )  # the client gives what it has where the Hub has nothing


@pytest.fixture
def stand_in(_empty_hub: None) -> Iterator[StandInHub]:
    """The stand-in hub, without the requests and faults of tests before; what this file put into it stays."""
    _HUB.requests.clear()
    _HUB.faults.clear()
    yield _HUB
    _HUB.faults.clear()


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`cli("merge", recipe, "-o", out)` runs the command line as a process would, exit code included."""

    def run(*words: object) -> Ran:
        from smelt.cli import main

        monkeypatch.setattr(sys, "argv", ["smelt", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A base of zeros and more, and two models one and three above it; their mean is two above it."""
    from checkpoints import state, write_model

    return tuple(
        write_model(tmp_path / "models" / name, state(value))
        for name, value in (("base", 0.0), ("cars", 1.0), ("birds", 3.0))
    )
