"""What the tests of a search share: models and tasks on disk, and a study of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pico_study import tasks, write_models, write_recipe

pytest.importorskip("optuna", reason="OPTUNA IS NOT INSTALLED (pip install 'smelt[tune]'): no study is tested")


@pytest.fixture(scope="session")
def pico(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of models and tasks; tests write nothing there but recipes."""
    root = tmp_path_factory.mktemp("pico-study")
    write_models(root)
    return root


@pytest.fixture
def study(pico: Path, tmp_path: Path) -> Callable[..., Any]:
    """`study({"seed": 3}, limit=5)`: words of the recipe, then those of the call; into a folder of the test."""
    from smelt.search.tune import tune

    def run(recipe: dict[str, Any] | None = None, **words: Any) -> Any:
        path = write_recipe(pico, name=tmp_path.name, **(recipe or {}))
        return tune(path, **{"tasks": tasks(pico), "out": tmp_path / "study", **words})

    return run


@pytest.fixture(scope="session")
def whole(pico: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One finished study of all scales; not to be written to."""
    from smelt.search.tune import tune

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(tmp_path_factory.mktemp("cache")))
        return tune(write_recipe(pico, name="whole"), tasks=tasks(pico), out=tmp_path_factory.mktemp("whole"), limit=5)


@pytest.fixture
def copied(whole: Any, tmp_path: Path) -> Path:
    """A copy of the finished study's folder, where `study(limit=5)` looks for it."""
    return Path(shutil.copytree(whole.folder, tmp_path / "study"))
