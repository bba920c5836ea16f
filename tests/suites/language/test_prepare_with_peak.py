"""The peak of a look at data: counted when it was taken now, and not that of what the process did before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.recipe.schema import Recipe
from smelt.suites.language.units import prepare_with_peak

pytest.importorskip("lm_eval", reason="LM-EVAL IS NOT INSTALLED (pip install 'smelt[llm]')")
needs_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="NO /proc: PEAKS ARE NOT KNOWN")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`recipe("fisher")` is a merge of two pico models; nothing was looked at before."""
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    models = {name: str(write_language_model(tmp_path / name, FOLLOWS[name])) for name in ("base", "up", "down")}
    answers = {"up": [("a", "b"), ("c", "d")], "down": [("e", "f"), ("g", "g")]}
    tasks = {
        name: str(write_language_task(tmp_path / "tasks" / name, own, splits=("train",)))
        for name, own in answers.items()
    }

    def written(method: str, examples: int = 1) -> Recipe:
        pool = {"base": models["base"], "models": {name: models[name] for name in tasks}}
        use = {"data": {"tasks": tasks, "examples": examples}} if method != "average" else {}
        return Recipe.parse({"pool": pool, "include": ["model.layers.*"], "merge": method, **use})

    return written


def peak_of(recipe: Recipe) -> int:
    return prepare_with_peak(recipe, device="cpu", threads=None)[1]


@needs_linux
def test_a_look_that_is_taken_now_has_a_peak_and_one_that_is_found_has_none(recipe: Any) -> None:
    assert peak_of(recipe("fisher")) > 10 << 20  # of a whole process with torch in it
    prepared, again = prepare_with_peak(recipe("fisher"), device="cpu", threads=None)
    assert (prepared.cached, again) == (True, 0)
    assert prepared.seconds > 0  # what it took then


@needs_linux
def test_what_the_process_held_before_is_forgotten(recipe: Any) -> None:
    held = bytearray(400 << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
    with_it = peak_of(recipe("fisher"))
    del held
    assert peak_of(recipe("fisher", examples=2)) < with_it - (200 << 20)


def test_where_there_is_nothing_to_look_at_there_is_no_peak(recipe: Any) -> None:
    assert peak_of(recipe("average")) == 0
