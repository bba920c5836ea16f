"""mergekit, started once in an environment of its own; the models both tools merge; the record of what was found.

SMELT_MERGEKIT=/path/to/mergekit-yaml names an installed mergekit 0.1.5; without it .bench/mergekit-env is made.
SMELT_PARITY_RESULTS=results/parity.json keeps what the run found.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from parity_models import write_models
from parity_record import Record
from parity_tools import Mergekit, Smelt

ROOT = Path(__file__).resolve().parents[2]
RECORD = Record()


def _benchmark_tools() -> ModuleType:
    """benchmarks/tools.py, which knows how to install mergekit."""
    spec = importlib.util.spec_from_file_location("benchmark_tools", ROOT / "benchmarks" / "tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def mergekit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mergekit]:
    tools = _benchmark_tools()
    given = os.environ.get("SMELT_MERGEKIT")
    tool = tools.find_mergekit(Path(given) if given else None, ROOT / ".bench" / "mergekit-env")
    RECORD.versions["mergekit"] = tool.versions()
    RECORD.versions["smelt"] = tools.find_smelt(None).versions()
    running = Mergekit(tool.executable.parent / "python", tmp_path_factory.mktemp("mergekit"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def smelt_reads(tmp_path_factory: pytest.TempPathFactory) -> Smelt:
    return Smelt(tmp_path_factory.mktemp("smelt"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def record() -> Record:
    return RECORD


def pytest_sessionfinish() -> None:
    if (wanted := os.environ.get("SMELT_PARITY_RESULTS")) and RECORD.rows:
        RECORD.write(ROOT / wanted)
