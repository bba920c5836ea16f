"""A selection suite as data: what it refuses, what a preset leaves, and the shipped one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.suites.find import find_suite
from smelt.suites.selection.candidate import alone, group
from smelt.suites.selection.growth import GrowthPath, growing, growth_paths, subsets, without_harm
from smelt.suites.selection.suite import SelectionSuite
from smelt.tasks.perturbations.perturbation import Perturbation

_EVERY = ("a", "b", "c")


def _suite(**words: Any) -> SelectionSuite:
    content = {
        "kind": "selection",
        "name": "small",
        "version": 1,
        "title": "Small",
        "pool": {"base": "base", "models": {name: name for name in _EVERY}},
        "held_in": ["in"],
        "held_out": ["out"],
        "perturbations": {"both": {"label": "Both", "image": True}, "text": {"label": "Text", "text": True}},
        "entries": {"average": {"label": "Linear", "merge": "average"}, "ties": {"label": "TIES", "merge": "ties"}},
        "presets": {"fast": {"limit": 5, "perturbations": [], "entries": []}},
    }
    return SelectionSuite.model_validate({**content, **words})


def test_the_shipped_suite_has_the_papers_six_methods_and_ten_experts():
    suite = find_suite("mllm10")
    assert isinstance(suite, SelectionSuite)
    assert len(suite.pool.models) == 10
    named = {entry.paper for entry in suite.entries.values() if entry.paper}
    assert named == {"DARE", "DELLA", "Linear", "TIES", "Task Arithmetic", "Model Stock"}
    for entry in suite.entries:
        suite.recipe(entry)
    fast = suite.with_preset("fast")
    assert (fast.limit, len(fast.perturbations), len(fast.entries)) == (16, 2, len(suite.entries))


def test_the_shipped_families_differ_in_the_two_experts_that_harm_and_in_nothing_else():
    first, noisy = find_suite("mllm10", "confident"), find_suite("mllm10", "noisy")
    assert find_suite("mllm10") == first
    assert (first.run_name, noisy.run_name) == ("mllm10", "mllm10-noisy")
    pools = [list(suite.pool.models.items()) for suite in (first, noisy)]
    differ = [(one, other) for one, other in zip(*pools, strict=True) if one != other]
    assert [name for (name, _), _ in differ] == first.harmful.models
    assert [name for _, (name, _) in differ] == noisy.harmful.models
    assert len(differ) == 2
    same = {"pool", "title", "family", "harmful"}
    assert first.model_dump(exclude=same) == noisy.model_dump(exclude=same)
    assert first.protocol() == noisy.protocol()


def test_the_guide_of_the_shipped_suite_perturbs_what_smelt_select_uq_does():
    suite = find_suite("mllm10")
    assert suite.perturbation(suite.guide) == Perturbation()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"strange": 1}, "strange"),
        ({"pool": {"base": "base", "models": {"a": "a", "b": "b"}}}, "at least three models"),
        ({"pool": {"base": "base", "models": {"a": "a", "b": "b", "joint": "c"}}}, "what a reference is called"),
        ({"held_out": ["in"]}, "listed twice"),
        ({"average": "mean"}, "no entry named 'mean'"),
        ({"perturbations": {"none": {"label": "None"}}}, "perturbs nothing"),
        ({"random": {"sizes": [3]}}, "leaves nothing to draw"),
        ({"presets": {"fast": {"entries": ["tise"]}}}, "did you mean 'ties'"),
        ({"harmful": {"kind": "noisy", "models": ["d"]}}, r"harmful\.models: no model named 'd'"),
        ({"harmful": {"kind": "noisy", "models": ["a", "b"]}}, "leaves fewer than two models"),
    ],
)
def test_what_does_not_fit_together_is_refused(words: dict[str, Any], fault: str):
    with pytest.raises(ValueError, match=fault):
        _suite(**words)


def test_a_suite_file_with_a_fault_is_named(tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**_suite().model_dump(mode="json"), "passes": 1}))
    with pytest.raises(RecipeError, match=r"own\.yaml: not a suite:\n  - passes"):
        find_suite(path)


def test_a_preset_keeps_what_guides_and_what_averages():
    fast = _suite().with_preset("fast")
    assert (list(fast.perturbations), list(fast.entries), fast.limit) == (["both"], ["average"], 5)
    with pytest.raises(RecipeError, match="no preset named 'slow'"):
        _suite().with_preset("slow")


def test_a_group_has_one_name_however_it_grew():
    assert group("ties", ["c", "a"], _EVERY) == group("ties", ["a", "c"], _EVERY)
    assert [group("ties", names, _EVERY).who for names in ("abc", "ac", "b")] == [
        "ties@all",
        "ties@all-but-b",
        "expert-b",
    ]
    assert group("ties", "ac", ("a", "b", "c", "d")).who == "ties@a+c"
    assert alone("b").stem == "expert-b"


def test_courses_are_uncertainty_and_accuracy_both_ways_then_the_other_perturbations():
    uncertain = {"both": {"a": 0.1, "b": 0.3, "c": 0.2}, "text": {"a": 0.3, "b": 0.2, "c": 0.1}}
    found = growth_paths(_suite(), uncertain, {"a": 0.5, "b": 0.7, "c": 0.6})
    assert {one.name: "".join(one.models) for one in found} == {
        "uncertainty-descending-both": "bca",
        "uncertainty-ascending-both": "acb",
        "accuracy-descending": "bca",
        "accuracy-ascending": "acb",
        "uncertainty-descending-text": "abc",
    }
    assert found[0].chosen([0.3, 0.1, 0.2]) == {"global_min": 2, "first_local_min": 2}
    assert found[2].chosen([0.3, 0.2, 0.9]) == {"global_min": 3, "first_local_min": 1}
    wanted = growing(_suite(), found, ["held_in", "held_out", "validation"])
    by_name = {member.who: asked for member, asked in wanted.items()}
    assert by_name["average@all"] == (("held_in", "held_out", "validation"), ("both", "text"))
    assert by_name["average@all-but-b"] == (("held_in", "held_out"), ("both",))


def test_with_both_orders_groups_grow_either_way_under_every_perturbation():
    uncertain = {"both": {"a": 0.1, "b": 0.3, "c": 0.2}, "text": {"a": 0.3, "b": 0.2, "c": 0.1}}
    found = growth_paths(_suite(both_orders=True), uncertain, {"a": 0.5, "b": 0.7, "c": 0.6})
    assert {one.name: "".join(one.models) for one in found[4:]} == {
        "uncertainty-descending-text": "abc",
        "uncertainty-ascending-text": "cba",
    }


def test_the_average_without_harm_is_merged_and_judged():
    suite = _suite(harmful={"kind": "noisy", "models": ["a"]}, harm=False)
    good = without_harm(suite)
    assert good is not None
    assert good.who == "average@all-but-a"
    path = GrowthPath("uncertainty", "descending", "both", ("a", "b", "c"))
    assert growing(suite, [path], ["held_in", "held_out"])[good] == (("held_in", "held_out"), ())
    assert without_harm(_suite()) is None


def test_random_groups_are_of_the_chosen_size_or_of_the_suites_where_one_or_all_are_chosen():
    assert [len(one) for one in subsets(_suite(subsets=2), 2)] == [2, 2]
    for size in (1, 3):  # of 7, the suite's own size, as many as leave something to draw: 2
        assert [len(one) for one in subsets(_suite(), size)] == [2, 2, 2]
