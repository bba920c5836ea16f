"""A word that Smelt does not know is refused, with the nearest one it knows; nothing is written."""

import pytest

import smelt
from checkpoints import snapshot, write_yaml
from smelt.errors import IncompatibleModels, RecipeError


@pytest.fixture
def recipe(two):
    base, cars, birds = two
    return {"pool": {"base": str(base), "models": {"cars": str(cars), "birds": str(birds)}}, "merge": "average"}


@pytest.fixture(autouse=True)
def _nothing_is_written(tmp_path, two):
    before = snapshot(tmp_path)
    yield
    after = {name: content for name, content in snapshot(tmp_path).items() if name != "recipe.yaml"}
    assert after == before


def refused(recipe, tmp_path, cli, *words):
    """The same refusal from Python and from the command line, with exit code 2."""
    with pytest.raises((RecipeError, IncompatibleModels)) as caught:
        smelt.merge(recipe, out=tmp_path / "out")
    ran = cli("merge", write_yaml(tmp_path / "recipe.yaml", recipe), "-o", tmp_path / "out")
    assert ran.code == 2
    for word in words:
        assert word in str(caught.value)
        assert word in ran.err
    return str(caught.value)


@pytest.mark.parametrize(
    ("typo", "meant", "value"),
    [
        ("dtyp", "dtype", "float32"),
        ("sed", "seed", 1),
        ("skp", "skip", ["head.*"]),
        ("inclde", "include", ["*"]),
        ("shard_sise", "shard_size", "1GB"),
        ("mising", "missing", "base"),
        ("vocabb", "vocab", "base"),
        ("slice", "slices", []),
        ("chat_templat", "chat_template", "auto"),
        ("allow_pickel", "allow_pickle", True),
        ("part", "parts", []),
        ("confg", "config", "cars"),
    ],
)
def test_a_typo_in_a_recipe_key_is_refused_with_the_key_meant(recipe, tmp_path, cli, typo, meant, value):
    refused({**recipe, typo: value}, tmp_path, cli, repr(typo), f"did you mean {meant!r}?")


def test_a_typo_in_a_required_key_says_both_what_is_missing_and_what_was_meant(recipe, tmp_path, cli):
    recipe["mrege"] = recipe.pop("merge")
    refused(recipe, tmp_path, cli, "merge is missing", "'mrege'", "did you mean 'merge'?")


def test_unknown_keys_are_refused_at_every_level(recipe, tmp_path, cli):
    pool = {**recipe["pool"], "bse": "x"}
    refused({**recipe, "pool": pool}, tmp_path, cli, "'pool'", "'bse'", "did you mean 'base'?")
    part = {"keys": ["head.*"], "merg": "average"}
    refused({**recipe, "parts": [part]}, tmp_path, cli, "parts.0", "'merg'", "did you mean 'merge'?")
    piece = {"models": {"cars": [0, 2]}, "bas": [0, 2]}
    refused({**recipe, "slices": [piece]}, tmp_path, cli, "slices.0", "'bas'", "did you mean 'base'?")
    deep = {"keys": ["layers.*"], "slices": [{"models": {"cars": [0, 2]}, "mrege": "average"}]}
    refused({**recipe, "parts": [deep]}, tmp_path, cli, "parts.0.slices.0", "'mrege'", "did you mean 'merge'?")
    rule = {"source": "cars", "forse": True}
    refused({**recipe, "tokens": {"<s>": rule}}, tmp_path, cli, "tokens.<s>", "'forse'", "did you mean 'force'?")


def test_all_faults_of_a_recipe_come_at_once(recipe, tmp_path, cli):
    refused({**recipe, "dtyp": "x", "seed": -1, "missing": "never"}, tmp_path, cli, "'dtyp'", "seed", "missing")


@pytest.mark.parametrize(("typo", "meant"), [("tise", "ties"), ("avrage", "average"), ("dare_tise", "dare_ties")])
def test_an_unknown_method_is_refused_with_the_nearest(recipe, tmp_path, cli, typo, meant):
    refused({**recipe, "merge": typo}, tmp_path, cli, f"no merge method named {typo!r}", f"did you mean {meant!r}?")


def test_an_unknown_step_before_a_method_is_refused_too(recipe, tmp_path, cli):
    refused({**recipe, "merge": [{"dre": {"density": 0.5}}, "ties"]}, tmp_path, cli, "'dre'", "did you mean 'dare'?")


def test_an_unknown_parameter_is_refused_with_the_nearest_and_all_there_are(recipe, tmp_path, cli):
    merge = {"ties": {"densty": 0.5}}
    refused(
        {**recipe, "merge": merge}, tmp_path, cli, "ties has no parameter 'densty'", "'density'", "scale", "weights"
    )


def test_an_unknown_parameter_of_an_alias_is_refused(recipe, tmp_path, cli):
    refused({**recipe, "merge": {"dare_ties": {"densty": 0.5}}}, tmp_path, cli, "dare_ties has no parameter 'densty'")


def test_a_value_of_the_wrong_kind_is_refused_and_shown(recipe, tmp_path, cli):
    refused({**recipe, "merge": {"ties": {"density": 1.5}}}, tmp_path, cli, "ties.density", "1.5")
    refused({**recipe, "merge": {"ties": {"density": "much"}}}, tmp_path, cli, "ties.density", "'much'")
    refused({**recipe, "merge": {"average": {"weights": [1, "x"]}}}, tmp_path, cli, "average.weights", "'x'")


def test_weights_for_a_model_that_does_not_exist_are_refused(recipe, tmp_path, cli):
    merge = {"average": {"weights": {"cars": 1, "bird": 2}}}
    refused({**recipe, "merge": merge}, tmp_path, cli, "average.weights", "'bird'", "did you mean 'birds'?")


def test_weights_that_forget_a_model_are_refused(recipe, tmp_path, cli):
    refused({**recipe, "merge": {"average": {"weights": {"cars": 1}}}}, tmp_path, cli, "average.weights", "'birds'")
    refused({**recipe, "merge": {"average": {"weights": [1, 2, 3]}}}, tmp_path, cli, "one value per model (2), got 3")


@pytest.mark.parametrize("word", ["include", "skip"])
def test_a_pattern_that_matches_no_tensor_is_refused(recipe, tmp_path, cli, word):
    refused({**recipe, word: ["hed.*"]}, tmp_path, cli, word, "'hed.*'", "matches no tensor", "names look like")


def test_a_filter_that_matches_no_tensor_is_refused(recipe, tmp_path, cli):
    density = [{"filter": "*self_atn*", "value": 0.2}, {"value": 1.0}]
    merge = {"dare": {"density": density}}
    refused({**recipe, "merge": [merge, "task_arithmetic"]}, tmp_path, cli, "dare.density", "'*self_atn*'", "no tensor")


def test_a_typo_inside_a_filter_is_refused(recipe, tmp_path, cli):
    weights = [{"fliter": "head.*", "value": 0.2}, {"value": 1.0}]
    refused({**recipe, "merge": {"average": {"weights": weights}}}, tmp_path, cli, "average.weights", "'fliter'")


def test_a_part_that_matches_no_tensor_is_refused(recipe, tmp_path, cli):
    refused({**recipe, "parts": [{"keys": ["hed.*"], "merge": "average"}]}, tmp_path, cli, "'hed.*'", "no tensor")


def test_a_part_or_slice_of_an_unknown_model_is_refused(recipe, tmp_path, cli):
    refused({**recipe, "parts": [{"keys": ["head.*"], "models": ["car"]}]}, tmp_path, cli, "'car'")
    refused({**recipe, "slices": [{"models": {"car": [0, 1]}}]}, tmp_path, cli, "'car'")


def test_layers_that_a_model_does_not_have_are_refused(recipe, tmp_path, cli):
    refused({**recipe, "slices": [{"models": {"cars": [0, 3], "birds": [0, 3]}}]}, tmp_path, cli, "slice 0", "[0, 3]")
    refused(
        {**recipe, "slices": [{"models": {"cars": [0, 2], "birds": [0, 1]}}]}, tmp_path, cli, "slice 0", "same number"
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("dtype", "bfloat61", ("'bfloat61'", "bfloat16")),
        ("dtype", "int8", ("'int8'", "float32")),
        ("shard_size", "5 parsecs", ("'5 parsecs'", "5GB")),
        ("shard_size", "1.2.3GB", ("'1.2.3GB'", "5GB")),
        ("vocab", "unin", ("'unin'", "union")),
        ("config", "bird", ("'bird'", "'birds'")),
        ("missing", "bse", ("missing", "'base'")),
        ("chat_template", "chatlm", ("'chatlm'", "'chatml'")),
    ],
)
def test_a_word_that_is_no_value_is_refused_with_the_values_there_are(recipe, tmp_path, cli, key, value, words):
    refused({**recipe, key: value}, tmp_path, cli, *words)


def test_a_repeated_yaml_key_is_refused(tmp_path, two, cli):
    base, cars, birds = two
    text = f"pool: {{base: {base}, models: [{cars}, {birds}]}}\nmerge: average\nseed: 1\nseed: 2\n"
    ran = cli("merge", write_yaml(tmp_path / "recipe.yaml", text), "-o", tmp_path / "out")
    assert ran.code == 2
    assert "'seed' stands twice" in ran.err
    assert "recipe.yaml" in ran.err


def test_a_repeated_key_inside_a_stage_is_refused(tmp_path, two, cli):
    base, cars, birds = two
    text = f"pool: {{base: {base}, models: [{cars}, {birds}]}}\nmerge: {{ties: {{density: 0.1, density: 0.2}}}}\n"
    ran = cli("merge", write_yaml(tmp_path / "recipe.yaml", text), "-o", tmp_path / "out")
    assert (ran.code, "'density' stands twice" in ran.err) == (2, True)


@pytest.mark.parametrize("text", ["{pool: [", "just words", "[1, 2]", "", "\x00\x01"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path, cli, text):
    ran = cli("merge", write_yaml(tmp_path / "recipe.yaml", text), "-o", tmp_path / "out")
    assert ran.code == 2
    assert ran.err.startswith("smelt: ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "value",
    [
        {"depth": 0.5},
        {"depth": []},
        {"depth": ["a", 1]},
        {"dept": [0, 1]},
        [{"filter": 3, "value": 1}, {"value": 2}],
        [],
    ],
)
def test_malformed_values_are_refused_not_tripped_over(recipe, tmp_path, cli, value):
    refused({**recipe, "merge": {"task_arithmetic": {"scale": value}}}, tmp_path, cli, "task_arithmetic.scale")


def test_a_keyword_typo_in_python_offers_words_of_the_recipe_too(two):
    base, cars, birds = two
    with pytest.raises(RecipeError, match=r"dytpe.*did you mean 'dtype'"):
        smelt.merge([cars, birds], base=base, method="ties", dytpe="float32")


def test_a_set_typo_on_the_command_line_names_the_word(two, tmp_path, cli, recipe):
    path = write_yaml(tmp_path / "recipe.yaml", recipe)
    ran = cli("merge", path, "--set", "sed=3", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "'sed'" in ran.err
    assert "'seed'" in ran.err
