"""A language suite as data: what it may say, presets, and what is refused before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.search.tune import grid_size
from smelt.suites.find import find_suite, suites
from smelt.suites.language.suite import LanguageSuite

PICO: dict[str, Any] = {
    "kind": "language",
    "name": "pico",
    "version": 1,
    "title": "Two specialists",
    "pool": {"base": "base", "models": {"up": "up", "down": "down"}},
    "domains": {"up": {"tests": ["up"], "validation": "up-val"}, "down": {"tests": ["down"]}},
    "entries": {"ties": {"label": "TIES", "merge": {"ties": {"density": 0.2}}, "tune": True}},
    "presets": {"fast": {"limit": 3, "entries": {"ties": {"tune": {"ties.scale": [0.5]}}}}},
}


def written(tmp_path: Path, **words: Any) -> Path:
    path = tmp_path / "pico.yaml"
    path.write_text(yaml.safe_dump({**PICO, **words}, sort_keys=False))
    return path


def test_the_kind_in_the_file_makes_it_a_language_suite(tmp_path: Path) -> None:
    suite = find_suite(written(tmp_path))
    assert isinstance(suite, LanguageSuite)
    assert (suite.tests, suite.validation) == (["up", "down"], ["up-val"])


@pytest.mark.parametrize("name", ["llm5", "mergebench"])
def test_a_shipped_suite_reads(name: str) -> None:
    suite = find_suite(name)
    assert isinstance(suite, LanguageSuite)
    assert list(suite.domains) == ["instruction", "maths", "multilingual", "coding", "safety"]
    assert name in suites()


def test_llm5_has_the_nine_methods_of_the_paper_and_its_grids() -> None:
    """Table 7 of the paper: 10, 30, 30, 35 and 5 settings; RegMean's 5 need its data and are counted elsewhere."""
    suite = find_suite("llm5")
    assert isinstance(suite, LanguageSuite)
    assert len(suite.entries) == 9
    names = ("task_arithmetic", "ties", "dare", "consensus", "localize_and_stitch")
    assert [grid_size(suite.recipe(suite.entries[name])) for name in names] == [10, 30, 30, 35, 5]
    tuned = {name for name, entry in suite.entries.items() if entry.tune}
    assert tuned == {*names, "regmean"}


def test_llm5_has_a_weaker_base_with_specialists_of_its_own_and_nothing_else_differs() -> None:
    first, weak = find_suite("llm5"), find_suite("llm5", "smollm2-99m-healed")
    assert first.pool.base == "zoo:smollm2-135m-instruct"
    assert weak.pool.base == "zoo:smollm2-99m-healed"
    assert (first.pool.models["maths"], weak.pool.models["maths"]) == ("zoo:llm5-maths", "zoo:llm5s-maths")
    assert (first.multitask, weak.multitask) == ("zoo:llm5-multitask", None)
    own = {"family", "title", "pool", "multitask"}
    assert first.model_dump(exclude=own) == weak.model_dump(exclude=own)


def test_a_preset_changes_limits_and_the_words_of_some_entries(tmp_path: Path) -> None:
    suite = find_suite(written(tmp_path))
    assert isinstance(suite, LanguageSuite)
    fast = suite.with_preset("fast")
    assert (suite.limit, fast.limit) == (None, 3)
    assert grid_size(fast.recipe(fast.entries["ties"])) == 1
    assert fast.entries["ties"].merge == suite.entries["ties"].merge
    assert suite.with_preset(None) is suite


def test_the_fast_preset_of_llm5_keeps_all_nine_methods_and_tries_two_settings_of_three() -> None:
    suite = find_suite("llm5")
    assert isinstance(suite, LanguageSuite)
    fast = suite.with_preset("fast")
    assert list(fast.entries) == list(suite.entries)
    sizes = [len(next(iter(e.tune[0].values())).values) for e in fast.entries.values() if isinstance(e.tune, list)]
    assert sizes == [2] * 3
    assert [len(domain.tests) for domain in fast.domains.values()] == [2, 2, 2, 1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tests": []}, "tests"),
        ({"domains": {"up": {"tests": []}, "down": {"tests": []}}}, "none has a test"),
        ({"multi_task": "both"}, "multi_task"),
        ({"pool": {"models": {"up": "up", "down": "down"}}}, "needs a base"),
        ({"pool": {"base": "base", "models": {"up": "up"}}}, "no model of the pool named 'down'"),
        ({"domains": {"up": {"tests": ["up"]}}}, "no domain named 'down'"),
        ({"domains": {"up": {"tests": ["up"]}, "down": {"tests": ["up"]}}}, "'up' is listed twice"),
        ({"domains": {"up": {"tests": ["up"], "validation": "up"}, "down": {"tests": ["d"]}}}, "is a test too"),
        ({"domains": {"up": {"tests": ["up"]}, "down": {"tests": ["down"]}}}, "no domain has a `validation` task"),
        ({"entries": {"multitask": {"label": "M", "merge": "average"}}}, "that is what the references are called"),
        ({"entries": {"f": {"label": "F", "merge": "fisher", "data": {"split": "test"}}}}, "looked at `test`"),
        ({"presets": {"fast": {"entries": {"tise": {}}}}}, "no entry named 'tise' (did you mean 'ties'?)"),
        ({"presets": {"fast": {"limits": 3}}}, "limits"),
        ({"presets": {"fast": {"leave_out": ["upp"]}}}, "no task named 'upp' (did you mean 'up'?)"),
    ],
)
def test_words_that_mean_nothing_are_refused(tmp_path: Path, words: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match="not a suite") as refused:
        find_suite(written(tmp_path, **words))
    assert said in str(refused.value)


def test_an_unknown_preset_names_those_that_there_are(tmp_path: Path) -> None:
    suite = find_suite(written(tmp_path))
    assert isinstance(suite, LanguageSuite)
    with pytest.raises(RecipeError, match="no preset named 'fats' \\(did you mean 'fast'\\?\\)"):
        suite.with_preset("fats")


def test_a_preset_that_breaks_an_entry_says_where(tmp_path: Path) -> None:
    presets = {"fast": {"entries": {"ties": {"colour": "red"}}}}
    suite = find_suite(written(tmp_path, presets=presets))
    assert isinstance(suite, LanguageSuite)
    with pytest.raises(RecipeError, match=r"pico, preset fast: entries\.ties\.colour"):
        suite.with_preset("fast")
