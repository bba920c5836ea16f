"""A suite as data: what its YAML may say, and that the shipped one says what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.learning.learner import learners
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.mixing.mixers import mixers
from smelt.prepare.prepare import check_recipe, needs_data
from smelt.suites.clip.suite import ClipSuite
from smelt.suites.find import find_suite, suites

PICO: dict[str, Any] = {
    "name": "pico",
    "version": 1,
    "title": "Pico",
    "pool": {"base": "dir:base", "models": {"cars": "dir:cars", "birds": "dir:birds"}},
    "tasks": ["cars", "birds"],
    "scales": [0.5, 1.0],
    "entries": {"ties": {"label": "TIES", "merge": {"ties": {"density": 0.2}}}},
}

LEFT_OUT = {
    "slerp": "takes two models",
    "nuslerp": "takes two models",
    "nearswap": "takes a base and one model",
    "arcee_fusion": "takes a base and one model",
    "passthrough": "takes one model",
    "core_space": "for low-rank changes; the experts are full models",
    "knots": "for low-rank changes; the experts are full models",
    "trim": "is the first half of ties, which trims by itself",
    "stitch": "reads the masks that `localize` learns, which is in it",
}


def written(folder: Path, **words: Any) -> Path:
    path = folder / "pico.yaml"
    path.write_text(yaml.safe_dump({**PICO, **words}, sort_keys=False))
    return path


def entry(**words: Any) -> dict[str, Any]:
    return {"one": {"label": "One", "merge": "emr", **words}}


def test_a_suite_is_found_by_its_name_and_by_its_path(tmp_path: Path) -> None:
    assert find_suite("clip8").name == "clip8"
    assert find_suite(written(tmp_path)).name == "pico"
    assert find_suite(str(written(tmp_path))).tasks == ["cars", "birds"]


def test_an_unknown_suite_gets_a_suggestion() -> None:
    with pytest.raises(RecipeError, match=r"no suite named 'clip9' \(did you mean 'clip8'\?\)"):
        find_suite("clip9")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no suite at .*nowhere\.yaml"):
        find_suite(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"taskss": ["cars"]}, "taskss: Extra inputs are not permitted"),
        ({"entries": entry(tuned=True)}, "entries.one.tuned: Extra inputs are not permitted"),
        ({"entries": entry(for_task="task")}, "entries.one.for_task: written as stage.parameter"),
        ({"curve_limit": 0}, "curve_limit: Input should be greater than 0"),
        ({"points": 1}, "points: Input should be greater than or equal to 2"),
        ({"paths": [{"start": "cars", "end": "birds"}]}, "paths.0.tasks: Field required"),
        ({"version": "new"}, "version: Input should be a valid integer"),
    ],
)
def test_a_wrong_word_is_named_with_its_place(tmp_path: Path, words: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=rf"pico\.yaml: not a suite:\n  - {re.escape(message)}"):
        find_suite(written(tmp_path, **words))


def test_every_fault_is_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        find_suite(written(tmp_path, points=0, seed="x", extra=1))
    assert str(caught.value).count("\n  - ") == 3


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + "title: Another\n")
    with pytest.raises(RecipeError, match="title"):
        find_suite(path)


def test_an_entry_becomes_a_recipe_with_the_suites_pool_tensors_and_seed(tmp_path: Path) -> None:
    suite = find_suite(written(tmp_path, include=["vision_model.*"], seed=7))
    recipe = suite.recipe(suite.entries["ties"])
    assert recipe.dump() == {
        "pool": PICO["pool"],
        "merge": [{"ties": {"density": 0.2}}],
        "include": ["vision_model.*"],
        "seed": 7,
    }


def test_a_recipe_for_a_task_names_it_in_the_stage_that_was_said(tmp_path: Path) -> None:
    suite = find_suite(written(tmp_path, entries=entry(for_task="emr.task")))
    one = suite.entries["one"]
    assert suite.recipe(one, task="cars").merge[0].parameters == {"task": "cars"}
    assert suite.recipe(one, task="cars").hash != suite.recipe(one, task="birds").hash
    assert one.merge[0].parameters == {}  # the entry itself stays as it was


def test_a_for_task_of_a_stage_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="for_task"):
        find_suite(written(tmp_path, entries=entry(for_task="erm.task")))


@pytest.mark.parametrize("way", [{"start": "carz", "end": "birds"}, {"start": "cars", "end": "birdz"}])
def test_a_path_from_a_model_that_is_not_in_the_pool_is_refused(tmp_path: Path, way: dict[str, str]) -> None:
    with pytest.raises(RecipeError, match=r"did you mean"):
        find_suite(written(tmp_path, paths=[{**way, "tasks": ["cars"]}]))


@pytest.mark.parametrize("name", suites())
def test_the_file_of_a_shipped_suite_has_its_name(name: str) -> None:
    assert find_suite(name).name == name


@pytest.fixture(scope="module")
def clip8() -> ClipSuite:
    return find_suite("clip8")


PLAIN = {name: suite for name in suites() if isinstance(suite := find_suite(name), ClipSuite)}
"""Those of one pool; a collaboration suite has tests of its own."""


@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite in PLAIN for name in PLAIN[suite].entries])
def test_an_entry_of_a_shipped_suite_names_what_exists_with_valid_parameters(suite: str, name: str) -> None:
    whole = PLAIN[suite]
    one = whole.entries[name]
    if one.ensemble:
        return
    for part in whole.parts or [None]:
        recipe = whole.recipe(one, task="photos", part=part)
        check_recipe(recipe)
        assert needs_data(recipe) == (one.data is not None)
        if one.for_task:
            assert recipe.merge[0].parameters["task"] == "photos"


def test_clip8_has_every_learner_and_every_way_to_mix(clip8: ClipSuite) -> None:
    used = {call.name for one in clip8.entries.values() for call in one.merge or ()}
    assert learners.keys() | mixers.keys() <= used


def test_clip8_has_every_stage_that_takes_eight_full_models(clip8: ClipSuite) -> None:
    used = set()
    for one in clip8.entries.values():
        for call in one.merge or ():
            used |= {name for name, _ in ALIASES.get(call.name, [(call.name, {})]) if name in stages}
    own = {name for name, stage in stages.items() if stage.function.__module__.startswith("smelt.methods.")}
    assert used | LEFT_OUT.keys() == own, "add the new method to clip8.yaml, or to LEFT_OUT with the reason"
    assert not used & LEFT_OUT.keys()


def test_clip8_runs_on_its_own_pool_and_tasks(clip8: ClipSuite) -> None:
    from smelt.tasks.groups import GROUPS

    refs = {clip8.pool.base, *clip8.pool.models.values()}
    assert refs == {"zoo:clip-tiny", *(f"zoo:clip-tiny-{task}" for task in GROUPS["clip8"])}
    assert set(clip8.tasks) == set(clip8.pool.models) == set(GROUPS["clip8"])
    for way in clip8.paths:
        assert {way.start, way.end} <= clip8.pool.models.keys()
        assert set(way.tasks) <= set(clip8.tasks)
    labels = [one.label for one in clip8.entries.values()]
    assert len(set(labels)) == len(labels)


def test_every_model_of_the_shipped_pools_is_in_the_zoo(clip8: ClipSuite) -> None:
    import smelt_zoo

    pools = [clip8.pool, *find_suite("neulig").pools.values()]
    used = {ref for pool in pools for ref in pool.refs.values()}
    assert used <= {f"zoo:{name}" for name in smelt_zoo.models()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"entries": entry(adapt="each_corruption")}, "an entry without `data` looks at no pictures"),
        ({"entries": entry(adapt="each_corruption", data={})}, "entries.one.adapt: the suite has no corruptions"),
        (
            {"corruptions": {"kinds": ["jpeg"], "stored": True, "severities": [1]}},
            "stored pictures are as they are; leave severities out",
        ),
    ],
)
def test_words_about_corruptions_that_nothing_would_follow_are_refused(
    tmp_path: Path, words: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=re.escape(message)):
        find_suite(written(tmp_path, **words))


def test_a_recipe_takes_what_the_suite_says_of_missing_tensors_and_of_the_config(tmp_path: Path) -> None:
    known = find_suite(written(tmp_path, missing="base", config="base"))
    recipe = known.recipe(known.entries["ties"])
    assert (recipe.missing, recipe.config) == ("base", "base")
    plain = find_suite(written(tmp_path))
    assert plain.recipe(plain.entries["ties"]).missing == "refuse"


def test_an_adapting_entry_is_made_with_the_damage_that_it_is_asked_about(tmp_path: Path) -> None:
    corruptions = {"kinds": ["jpeg"], "stored": True}
    words = {"merge": "adamerging", "data": {"split": "test"}, "adapt": "each_corruption"}
    known = find_suite(written(tmp_path, corruptions=corruptions, entries=entry(**words)))
    assert known.corruptions.names == ["jpeg@stored"]
    recipes = [known.recipe(known.entries["one"], corruption=one) for one in (None, "jpeg@stored")]
    assert [one.data.corruption for one in recipes] == [None, "jpeg@stored"]
    assert recipes[0].hash != recipes[1].hash
