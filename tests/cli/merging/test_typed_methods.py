"""What people type for a method and its models, and what they are told where that cannot be read."""

from __future__ import annotations

import json
import shlex

import pytest

import smelt
from checkpoints import read_weights
from smelt.errors import RecipeError


@pytest.fixture
def words(two):
    base, cars, birds = two
    return ["--base", base, "--model", cars, "--model", birds]


def recipe_of(out):
    return json.loads((out / "manifest.json").read_text())["recipe"]


def test_a_pipeline_is_typed_with_commas_and_its_parameters_with_a_dot(tmp_path, cli, words):
    out = tmp_path / "out"
    assert cli("merge", "-m", "dare,ties", "--set", "dare.density=0.5", *words, "-o", out).code == 0
    assert recipe_of(out)["merge"] == [{"dare": {"density": 0.5}}, "ties"]


def test_a_parameter_that_one_stage_has_needs_no_dot(tmp_path, cli, words):
    out = tmp_path / "out"
    assert cli("merge", "-m", "dare, ties", "--set", "weights=[1, 3]", *words, "-o", out).code == 0
    assert recipe_of(out)["merge"] == ["dare", {"ties": {"weights": [1, 3]}}]


def test_one_that_two_stages_have_is_refused_with_both_spellings_which_can_be_pasted(tmp_path, cli, words):
    ran = cli("merge", "-m", "dare,ties", "--set", "density=0.5", *words, "-o", tmp_path / "out")
    assert ran.code == 2
    assert ran.err == (
        "smelt: dare and ties both have a parameter 'density'; write `--set dare.density=0.5` or "
        "`--set ties.density=0.5`\n"
    )
    for number, pasted in enumerate(["--set dare.density=0.5", "--set ties.density=0.5"]):
        out = tmp_path / f"out-{number}"
        assert cli("merge", "-m", "dare,ties", *shlex.split(pasted), *words, "-o", out).code == 0


def test_the_hint_after_a_step_without_a_method_can_be_pasted(tmp_path, cli, words):
    ran = cli("merge", "-m", "dare", "--set", "density=0.5", *words, "-o", tmp_path / "out")
    assert ran.err.endswith("put a method after it: `-m dare,ties` with `--set dare.density=NUMBER`\n")
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"pool: {{base: {words[1]}, models: [{words[3]}, {words[5]}]}}\nmerge: dare\n")
    assert "put a method after it: `merge: [dare, ties]`\n" in cli("merge", recipe, "-o", tmp_path / "out").err


def test_python_takes_the_same_words(two, tmp_path):
    base, cars, birds = map(str, two)
    merged = smelt.merge([cars, birds], base=base, method="dare,ties", weights=[1, 3], **{"dare.density": 1.0})
    listed = smelt.merge([cars, birds], base=base, method=[("dare", {"density": 1.0}), ("ties", {"weights": [1, 3]})])
    assert all(bool((merged[key] == listed[key]).all()) for key in listed)
    with pytest.raises(RecipeError, match=r"write `method=\[\('dare', \{'density': 0\.5\}\), 'ties'\]` or `method=\["):
        smelt.merge([cars, birds], base=base, method="dare,ties", density=0.5)


def test_a_stage_inside_a_name_from_another_tool_can_be_meant(tmp_path, cli, words):
    out = tmp_path / "out"
    assert cli("merge", "-m", "dare_ties", "--set", "ties.density=0.25", *words, "-o", out).code == 0
    assert recipe_of(out)["merge"] == ["dare", {"ties": {"density": 0.25}}]


def test_set_changes_a_parameter_of_a_recipe_too(tmp_path, cli, words):
    recipe, out = tmp_path / "r.yaml", tmp_path / "out"
    recipe.write_text(
        f"pool: {{base: {words[1]}, models: [{words[3]}, {words[5]}]}}\nmerge: {{ties: {{density: 1}}}}\n"
    )
    assert cli("merge", recipe, "--set", "ties.density=0.5", "-o", out).code == 0
    assert recipe_of(out)["merge"] == [{"ties": {"density": 0.5}}]


def test_the_case_of_a_name_does_not_matter_nor_a_dash(tmp_path, cli, words):
    for number, written in enumerate(["TIES", "Task-Arithmetic", "dare-TIES", "TA"]):
        assert cli("plan", "-m", written, *words).code == 0, written
        assert cli("merge", "-m", written, *words, "-o", tmp_path / str(number)).code == 0, written
    assert cli("methods", "TIES").out.startswith("ties")


def test_an_unknown_name_gets_one_near_it_and_where_all_are_listed(cli, words):
    ran = cli("plan", "-m", "tise", *words)
    assert ran.err == "smelt: no merge method named 'tise' (did you mean 'ties'?); `smelt methods` lists them\n"
    ran = cli("plan", "-m", "xyzzy", *words)
    assert (ran.code, ran.err) == (2, "smelt: no merge method named 'xyzzy'; `smelt methods` lists them\n")
    with pytest.raises(RecipeError, match=r"named 'xyzzy'; `smelt\.list_methods\(\)` lists them"):
        smelt.plan([str(words[3]), str(words[5])], method="xyzzy")


def test_models_without_a_flag_get_the_command_that_was_meant(tmp_path, cli, two):
    _, cars, birds = two
    out = tmp_path / "out"
    ran = cli("merge", cars, birds, "-m", "average", "--set", "weights=[1, 3]", "-o", out)
    said, meant = ran.err.splitlines()
    assert (ran.code, "models are given with --model, once per model" in said) == (2, True)
    assert cli(*shlex.split(meant)[1:]).code == 0
    assert read_weights(out)["embed.weight"][0, 0] == 2.5
    ran = cli("merge", cars, "-o", tmp_path / "other")
    assert (ran.code, "models are given with --model" in ran.err) == (2, True)


def test_slerp_with_a_base_and_one_model_goes_from_the_base_to_the_model(tmp_path, cli, two):
    _, cars, birds = two
    two_models, with_base = tmp_path / "two", tmp_path / "with-base"
    assert cli("merge", "-m", "slerp", "--set", "t=0.25", "--model", cars, "--model", birds, "-o", two_models).code == 0
    ran = cli("merge", "-m", "slerp", "--set", "t=0.25", "--base", cars, "--model", birds, "-o", with_base)
    assert (ran.code, "the base, cars, counts as the first, birds as the second" in ran.out) == (0, True)
    left, right = read_weights(two_models), read_weights(with_base)
    assert all(bool((left[key] == right[key]).all()) for key in left)
    state = smelt.merge({"birds": right}, base=left, method="slerp", t=0.0)
    assert all(bool((state[key] == left[key]).all()) for key in left)


def test_slerp_says_once_what_it_wants(tmp_path, cli, two):
    base, cars, birds = two
    ran = cli("plan", "-m", "slerp", "--model", cars)
    assert ran.err == (
        "smelt: slerp merges exactly 2 models, got 1 (cars); give `--model REF`, or the base as one of them: "
        "`--base REF`\n"
    )
    third = ["--model", f"third={base}"]
    ran = cli("plan", "-m", "slerp", "--model", f"a={cars}", "--model", f"b={birds}", *third)
    assert ran.err == "smelt: slerp merges exactly 2 models, got 3 (a, b, third); `-m multislerp` merges any number\n"
