"""A model that is another one with layers left out: put together once, checked by a hash, whole or not at all."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from smelt.errors import CorruptFile, RecipeError
from smelt.inspection.headers import read_model
from smelt.models.references import open_ref
from smelt.models.zoo.catalogue import zoo_models
from smelt.models.zoo.layers_origin import layers_note
from smelt.models.zoo.origin import ZooOrigin, unpacked

SHORT, LAYERS = "zoo:short", 4
DOWN = "mlp.down_proj.weight"


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Llama of four layers in bfloat16; layers 0 and 3 of it, healed in the second of them; both in a zoo."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "zoo"
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.LlamaConfig(
        num_hidden_layers=LAYERS, vocab_size=12, tie_word_embeddings=True, dtype="bfloat16", **sizes
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(home / "llama")
    (home / "llama" / "tokenizer_config.json").write_text("{}")
    folder = home / "short"
    (folder / "heal").mkdir(parents=True)
    (folder / "README.md").write_text("# Short\n\nA short Llama. Small.\n")
    words = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["down_proj"]}
    (folder / "heal" / "adapter_config.json").write_text(json.dumps(words))
    module = "base_model.model.model.layers.1.mlp.down_proj"
    pair = {f"{module}.lora_A.weight": torch.full((1, 16), 0.5), f"{module}.lora_B.weight": torch.full((8, 1), 0.25)}
    save_file(pair, folder / "heal" / "adapter_model.safetensors")
    package: Any = types.ModuleType("smelt_zoo")
    package.models = lambda: {"llama": home / "llama", "short": folder}
    monkeypatch.setitem(sys.modules, "smelt_zoo", package)

    def write(**other: Any) -> Path:
        note = layers_note(folder, "zoo:llama", [0, 3], "heal")
        (folder / "origin.json").write_text(json.dumps({**note, **other}))
        return folder

    write()
    return types.SimpleNamespace(
        home=home, folder=folder, write=write, whole=load_file(home / "llama/model.safetensors")
    )


def test_the_layers_that_are_kept_are_numbered_anew(zoo: Any) -> None:
    place = unpacked(zoo.folder)
    made = load_file(place / "model.safetensors")
    assert {key.split(".")[2] for key in made if key.startswith("model.layers.")} == {"0", "1"}
    for layer, was in ((0, 0), (1, 3)):
        mine = {key.removeprefix(f"model.layers.{layer}."): t for key, t in made.items() if f".layers.{layer}." in key}
        mine.pop(DOWN)
        assert all(torch.equal(tensor, zoo.whole[f"model.layers.{was}.{key}"]) for key, tensor in mine.items())
    assert torch.equal(made["model.norm.weight"], zoo.whole["model.norm.weight"])
    assert unpacked(zoo.folder) == place  # and is not made again


def test_what_heals_it_is_added_in_float32_and_rounded_once(zoo: Any) -> None:
    """alpha / r = 1 times a column of 0.25 times a row of 0.5: 0.125 more, in layer 1 of the short model alone."""
    made = load_file(unpacked(zoo.folder) / "model.safetensors")
    before = zoo.whole[f"model.layers.3.{DOWN}"]
    assert torch.equal(made[f"model.layers.1.{DOWN}"], (before.float() + 0.125).to(torch.bfloat16))
    assert torch.equal(made[f"model.layers.0.{DOWN}"], zoo.whole[f"model.layers.0.{DOWN}"])


def test_it_is_an_ordinary_folder_for_transformers(zoo: Any) -> None:
    from transformers import LlamaForCausalLM

    place = unpacked(zoo.folder)
    model, info = LlamaForCausalLM.from_pretrained(place, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert len(model.model.layers) == model.config.num_hidden_layers == 2
    assert (place / "tokenizer_config.json").is_file()
    assert not (place / "heal").exists()


def test_an_adapter_over_it_is_a_model_too(zoo: Any) -> None:
    source = open_ref(f"{SHORT}+{zoo.folder / 'heal'}")
    assert source.tensors.keys() == open_ref(SHORT).tensors.keys()
    source.close()


def test_nothing_heals_it_where_the_note_says_nothing_of_it(zoo: Any) -> None:
    note = layers_note(zoo.folder, "zoo:llama", [0, 3])
    (zoo.folder / "origin.json").write_text(json.dumps(note))
    made = load_file(unpacked(zoo.folder) / "model.safetensors")
    assert torch.equal(made[f"model.layers.1.{DOWN}"], zoo.whole[f"model.layers.3.{DOWN}"])
    # embedding 12 * 8, norm 8, and in each layer 2 * 64 + 2 * 32 of attention, 3 * 128 of the MLP, two norms of 8
    assert note["parameters"] == 12 * 8 + 8 + 2 * (2 * 64 + 2 * 32 + 3 * 128 + 2 * 8)
    assert note["bytes"] == 2 * note["parameters"]


def test_it_is_listed_and_inspected_without_being_made(zoo: Any, tmp_path: Path) -> None:
    (one,) = (model for model in zoo_models() if model.name == "short")
    assert one.kind == "model, 2 of 4 layers of zoo:llama left out, then healed"
    assert one.description == "A short Llama."
    found = read_model(SHORT)
    assert sum(tensor.parameters for tensor in found.tensors) == one.parameters
    assert found.config["num_hidden_layers"] == 2
    assert "not unpacked yet" in found.notes[0]
    assert not (tmp_path / "cache" / "zoo").exists()
    unpacked(zoo.folder)
    assert {tensor.name for tensor in read_model(SHORT).tensors} == {tensor.name for tensor in found.tensors}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"keep": [0, 4]}, "keep: zoo:llama has layers 0 to 3, not 4"),
        ({"keep": [0, 0]}, "keep: layer 0 is there twice"),
        ({"keep": [3, 0]}, "keep: layers stay in their order"),
        ({"keep": []}, "keep"),
        ({"heal": "../heal"}, "heal: should be the name of a folder beside the note"),
    ],
)
def test_a_note_that_means_nothing_names_its_fault(zoo: Any, words: dict[str, Any], said: str) -> None:
    with pytest.raises(CorruptFile, match=r"origin\.json: ") as refused:
        ZooOrigin.load(zoo.write(**words))
    assert said in str(refused.value)


def test_other_numbers_layers_and_missing_files_are_told_and_leave_nothing_behind(zoo: Any, tmp_path: Path) -> None:
    cases = [
        ({"weights_sha256": "0" * 64}, CorruptFile, "the layers of zoo:llama make other numbers than they should"),
        ({"layers": 5}, CorruptFile, "zoo:llama has 4 layers, not 5"),
        ({"from": "zoo:lama"}, RecipeError, "zoo:short: its layers are those of zoo:lama: .*did you mean 'llama'"),
        ({"heal": "cure"}, CorruptFile, r"cure/adapter_config\.json is not there; install the zoo again"),
    ]
    for words, kind, said in cases:
        with pytest.raises(kind, match=said):
            unpacked(zoo.write(**words))
    assert list((tmp_path / "cache" / "zoo").iterdir()) == []
