"""The peak of a look at data: counted when it was taken now, and not that of what the process did before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smelt.bench.language.look import look
from smelt.prepare import Prepared
from smelt.recipe.schema import Recipe

RECIPE = Recipe.parse({"pool": {"base": "b", "models": {"a": "a"}}, "merge": "average"})
needs_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="NO /proc: PEAKS ARE NOT KNOWN")


def looks(monkeypatch: pytest.MonkeyPatch, seconds: float, megabytes: int) -> int:
    """The peak of a look that holds so much memory, and that says it took so long."""

    def prepare(recipe: Recipe, **words: Any) -> Prepared:
        held = bytearray(megabytes << 20)
        held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
        return Prepared(recipe, seconds=seconds)

    monkeypatch.setattr("smelt.prepare.prepare", prepare)
    return look(RECIPE, device="cpu", threads=None)[1]


@needs_linux
def test_a_look_is_charged_with_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(monkeypatch, 1e-6, 200) > 200 << 20


@needs_linux
def test_what_was_held_before_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = looks(monkeypatch, 1e-6, 300), looks(monkeypatch, 1e-6, 20)
    assert second < first - (200 << 20)


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_nothing_to_look_at_and_a_look_of_another_time_count_for_nothing(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    assert looks(monkeypatch, seconds, 1) == 0
