"""config.json: which differences matter, and what the output's says."""

import pytest

from smelt.formats.folder_files import config_differences, read_config, updated_config

LLAMA = {"model_type": "llama", "num_hidden_layers": 3, "rope_theta": 10000.0, "vocab_size": 10, "dtype": "float32"}


def differences(first, second, ignore_layers=False):
    return config_differences({"a": first, "b": second}, ignore_layers)


def test_equal_configs_do_not_differ():
    assert differences(LLAMA, dict(LLAMA)) == []


def test_a_difference_names_key_values_and_models():
    assert differences(LLAMA, {**LLAMA, "rope_theta": 5e5}) == ["rope_theta is 10000.0 in a but 500000.0 in b"]


@pytest.mark.parametrize(
    "key", ["_name_or_path", "transformers_version", "dtype", "torch_dtype", "eos_token_id", "use_cache", "vocab_size"]
)
def test_what_does_not_change_the_arithmetic_may_differ(key):
    assert differences({**LLAMA, key: 1}, {**LLAMA, key: 2}) == []


def test_nested_configs_are_compared_key_by_key():
    first = {"text_config": {"hidden_size": 4}, "vision_config": {"patch_size": 16}}
    second = {"text_config": {"hidden_size": 4}, "vision_config": {"patch_size": 32}}
    assert differences(first, second) == ["vision_config.patch_size is 16 in a but 32 in b"]


def test_nothing_against_a_table_is_a_difference():
    assert differences({"rope_scaling": None}, {"rope_scaling": {"factor": 8.0}}) != []
    assert differences({"rope_scaling": {"factor": 8.0}}, {"rope_scaling": None}) != []


def test_layer_counts_may_differ_where_layers_are_sliced():
    other = {**LLAMA, "num_hidden_layers": 5}
    assert differences(LLAMA, other) != []
    assert differences(LLAMA, other, ignore_layers=True) == []


def test_a_model_without_a_config_is_no_difference():
    assert differences(LLAMA, None) == []


def test_the_dtype_is_written_where_the_config_has_it():
    assert updated_config({"torch_dtype": "float32"}, dtype="bfloat16", layers=None) == {"torch_dtype": "bfloat16"}
    assert updated_config({}, dtype="bfloat16", layers=None) == {"dtype": "bfloat16"}
    nested = {"dtype": "float32", "text_config": {"dtype": "float32"}, "vision_config": {}}
    assert updated_config(nested, dtype="float16", layers=None) == {
        "dtype": "float16",
        "text_config": {"dtype": "float16"},
        "vision_config": {},
    }


def test_layers_are_counted_and_lists_by_layer_are_cut_along():
    config = {**LLAMA, "layer_types": ["full", "sliding", "full"], "eos_token_id": [1, 2, 3]}
    new = updated_config(config, dtype=None, layers={"model.layers": [0, 1, 1, 2]})
    assert new["num_hidden_layers"] == 4
    assert new["layer_types"] == ["full", "sliding", "sliding", "full"]
    assert new["eos_token_id"] == [1, 2, 3]


def test_the_input_is_left_as_it_was():
    config = {**LLAMA, "text_config": {"dtype": "float32", "num_hidden_layers": 2}}
    before = repr(config)
    updated_config(config, dtype="bfloat16", layers={"model.layers": [0]})
    assert repr(config) == before


def test_reading_a_folder_without_config(tmp_path):
    assert read_config(tmp_path) is None
    assert read_config(None) is None
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert read_config(tmp_path) == {"a": 1}
