"""The greedy soup: the best model first, and each that does no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pico_selection import write_clips
from smelt.errors import RecipeError
from smelt.select.greedy_soup import greedy, soup

pytest.importorskip("transformers")


def test_a_soup_keeps_what_does_no_harm(tmp_path: Path):
    recipe = write_clips(tmp_path)
    found = soup(recipe, out=tmp_path / "out", tasks=tmp_path / "colours")
    trace = json.loads((tmp_path / "out" / "trace.json").read_text())
    singles = [trace["singles"][name]["accuracy"] for name in trace["order"]]
    assert singles == sorted(singles, reverse=True)
    assert "uncertainty" not in trace["steps"][0]
    best, kept = -1.0, []
    for step in trace["steps"]:
        assert step["models"] == [*kept, step["added"]]
        assert step["kept"] == (step["accuracy"] >= best)
        if step["kept"]:
            best, kept = step["accuracy"], step["models"]
    assert list(found.models) == kept
    assert found.recipe.looked_at is not None
    assert found.recipe.looked_at.labels == 12


def test_each_model_is_tried_with_those_that_stayed():
    accuracy = {("b",): 0.5, ("b", "c"): 0.4, ("b", "a"): 0.5}
    found = list(greedy(["b", "c", "a"], lambda group: accuracy[tuple(group)]))
    assert [(one.added, one.kept) for one in found] == [("b", True), ("c", False), ("a", True)]
    assert found[-1].group == ("b", "a")


def test_a_soup_is_not_chosen_on_test(tmp_path: Path):
    with pytest.raises(RecipeError, match="a soup is not chosen on `test`"):
        soup({"pool": {"models": ["a", "b"]}, "merge": "average"}, out=tmp_path / "out", split="test")
