"""What the tests of a suite share: its models and tasks on disk, and merges made inside the test's process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import smelt
from collaboration_suite import Together, write_collaboration, write_models, write_tasks
from pico_suite import write_suite
from smelt.suites.merge_process import MergedModel
from smelt.suites.run import BenchResult


class Merges:
    """Stands for `merge_in_process`, without a process of its own; remembers what was merged."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, recipe: Path, out: Path, *, threads: int | None = None) -> MergedModel:
        self.names.append(recipe.stem)
        smelt.merge(recipe, out=out, force=True, threads=threads)
        return MergedModel(out, 0.5, 1_000_000)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BenchResult]:
    """The folder of the pico suite, written once, and one whole run of it."""
    root = tmp_path_factory.mktemp("pico-suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(root / "cache"))
        patch.setattr("smelt_zoo.tasks", lambda: _tasks(root))
        patch.setattr("smelt.suites.plan.EXECUTOR", "inline")
        patch.setattr("smelt.suites.clip.units.merge_in_process", Merges())
        return root, smelt.bench(write_suite(root), out=root / "whole")


@pytest.fixture
def root(made: tuple[Path, BenchResult], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The suite's folder, with its tasks known by their names; not to be written to."""
    monkeypatch.setattr("smelt_zoo.tasks", lambda: _tasks(made[0]))
    return made[0]


@pytest.fixture
def whole(made: tuple[Path, BenchResult]) -> BenchResult:
    return made[1]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has patched holds for every unit; tests of real processes say `executor="local"`."""
    monkeypatch.setattr("smelt.suites.plan.EXECUTOR", "inline")


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> Merges:
    merges = Merges()
    monkeypatch.setattr("smelt.suites.clip.units.merge_in_process", merges)
    return merges


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`own(scales=[...])` writes a suite of the test's own with other words, and makes its tasks known."""

    def write(**words: Any) -> Path:
        monkeypatch.setattr("smelt_zoo.tasks", lambda: _tasks(tmp_path))
        return write_suite(tmp_path, **words)

    return write


@pytest.fixture
def half_done(root: Path, whole: BenchResult, tmp_path: Path) -> Path:
    """A copy of the finished run's folder."""
    return Path(shutil.copytree(whole.folder, tmp_path / "out"))


@pytest.fixture(scope="session")
def made_together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    root = tmp_path_factory.mktemp("together")
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(root / "cache"))
        patch.setattr("smelt_zoo.tasks", lambda: _tasks(root))
        write_tasks(root)
        pools = write_models(root)
        suite = write_collaboration(root, pools)
        return Together(
            root, suite, pools, smelt.bench(suite, out=root / "out", executor="inline", tell=told.append), told
        )


@pytest.fixture
def together(made_together: Together, monkeypatch: pytest.MonkeyPatch) -> Together:
    """The collaboration suite and its run, with the tasks and the cache of that run; not to be written to."""
    monkeypatch.setattr("smelt_zoo.tasks", lambda: _tasks(made_together.root))
    monkeypatch.setenv("SMELT_CACHE", str(made_together.root / "cache"))
    return made_together


@pytest.fixture
def changed(together: Together, tmp_path: Path) -> Any:
    """`changed(fit={...})` writes the same suite with other words; models and tasks stay those of the run."""

    def write(**words: Any) -> Path:
        return write_collaboration(tmp_path, **{"pools": together.pools, **words})

    return write


def _tasks(root: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted((root / "tasks").iterdir())}
