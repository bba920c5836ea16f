"""What lies at a path: a folder in any of the usual layouts, or one file. Damage is in tests/attacks."""

import json

import pytest
import torch
from safetensors.torch import save_file

from checkpoints import state, write_model
from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import read_json
from smelt.formats.open import is_adapter, open_path


def test_one_file_is_enough(tmp_path):
    save_file(state(), tmp_path / "model.safetensors")
    source = open_path(tmp_path)
    assert sorted(source.tensors) == sorted(state())
    assert (source.folder, list(source.files)) == (tmp_path, [tmp_path / "model.safetensors"])


def test_a_file_of_any_name_alone_in_its_folder_is_the_model(tmp_path):
    save_file(state(), tmp_path / "weights.safetensors")
    assert sorted(open_path(tmp_path).tensors) == sorted(state())


def test_shards_follow_their_index_and_other_files_are_left_alone(tmp_path):
    places = {}
    for number, (name, tensor) in enumerate(state().items(), 1):
        places[name] = f"model-{number:05d}-of-00006.safetensors"
        save_file({name: tensor}, tmp_path / places[name])
    save_file({"old": torch.ones(1)}, tmp_path / "consolidated.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert sorted(open_path(tmp_path).tensors) == sorted(state())


def test_a_file_knows_the_folder_around_it_if_that_is_a_models(tmp_path):
    save_file(state(), tmp_path / "x.safetensors")
    assert open_path(tmp_path / "x.safetensors").folder is None
    write_model(tmp_path / "m", state())
    assert open_path(tmp_path / "m" / "model.safetensors").folder == tmp_path / "m"


def test_other_files_are_no_models(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(RecipeError, match=r"notes\.txt: not a model"):
        open_path(tmp_path / "notes.txt")


def test_an_adapter_is_known_by_its_config(tmp_path):
    assert not is_adapter(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert is_adapter(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"nope"])
def test_json_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"config\.json: not readable as JSON"):
        read_json(tmp_path / "config.json")
