"""A model whose tower is another model's: put together once, checked by a hash, whole or not at all."""

import json
import sys
import types

import pytest
import torch
from safetensors.torch import load_file, save_file

from checkpoints import random_state, write_model
from smelt.errors import CorruptFile, RecipeError
from smelt.models.families.load import load
from smelt.models.references import open_ref
from smelt.models.zoo.catalogue import zoo_models
from smelt.models.zoo.origin import ZooOrigin, unpacked
from smelt.models.zoo.towers_origin import Tower, weights_hash
from smelt.testing.pico_llava import llava, save_llava

TOWERS = {"model.vision_tower.": {"from": "zoo:clip", "prefix": "vision_model."}}


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo of a CLIP, a LLaVA that has its tower, and an adapter over that."""
    home, model = tmp_path / "zoo", llava()
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    tower = {f"vision_model.{name.split('.', 2)[2]}": t for name, t in state.items() if ".vision_tower." in name}
    write_model(home / "clip", {**tower, "text_model.w": torch.ones(2)}, README__md="# Clip\n\nA CLIP.\n")
    folder = save_llava(home / "llava")
    (folder / "model.safetensors").unlink()
    save_file({name: t for name, t in state.items() if ".vision_tower." not in name}, folder / "part.safetensors")
    (folder / "README.md").write_text("# Llava\n\nA LLaVA. Small.\n")
    (home / "tuned").mkdir()
    config = {
        "peft_type": "LORA",
        "r": 1,
        "lora_alpha": 1,
        "base_model_name_or_path": "zoo:llava",
        "target_modules": ["q_proj"],
    }
    (home / "tuned" / "adapter_config.json").write_text(json.dumps(config))
    module = "base_model.model.model.language_model.layers.0.self_attn.q_proj"
    pair = {f"{module}.lora_A.weight": torch.ones(1, 16), f"{module}.lora_B.weight": torch.ones(16, 1)}
    save_file(
        {name: t.to(torch.float8_e4m3fn) for name, t in pair.items()}, home / "tuned" / "adapter_model.safetensors"
    )
    package = types.ModuleType("smelt_zoo")
    package.models = lambda: {"clip": home / "clip"}
    package.multimodal_models = lambda: {name: home / name for name in ("llava", "tuned")}
    monkeypatch.setitem(sys.modules, "smelt_zoo", package)

    def write(**other):
        towers = {place: Tower.model_validate(words) for place, words in TOWERS.items()}
        note = {
            "kind": "towers",
            "config": "config.json",
            "weights": "part.safetensors",
            "towers": TOWERS,
            "weights_sha256": weights_hash(folder / "part.safetensors", towers),
            "parameters": sum(t.numel() for t in state.values()),
            "bytes": (folder / "part.safetensors").stat().st_size,
        }
        (folder / "origin.json").write_text(json.dumps({**note, **other}))
        return folder

    write()
    return types.SimpleNamespace(home=home, folder=folder, write=write, state=state)


def test_the_whole_model_is_made_and_loads_in_transformers(zoo):
    from transformers import LlavaForConditionalGeneration

    place = unpacked(zoo.folder)
    assert load_file(place / "model.safetensors").keys() == zoo.state.keys()
    model, info = LlavaForConditionalGeneration.from_pretrained(place, output_loading_info=True)
    assert not info["missing_keys"]
    assert all(torch.equal(tensor, zoo.state[name]) for name, tensor in model.state_dict().items())
    assert {file.name for file in place.iterdir()} >= {"config.json", "tokenizer.json", "chat_template.jinja"}
    assert not (place / "part.safetensors").exists()
    assert unpacked(zoo.folder) == place  # and is not made again


def test_it_is_opened_by_its_name_and_so_is_an_adapter_over_it(zoo):
    base, tuned = load("zoo:llava", "image_text"), load("zoo:tuned", "image_text")
    assert base.tower_hash == tuned.tower_hash
    key = "model.language_model.layers.0.self_attn.q_proj.weight"
    change = tuned.module.get_parameter(key) - base.module.get_parameter(key)
    torch.testing.assert_close(change, torch.ones(16, 16))  # alpha / r times a column of ones times a row of ones
    open_ref("zoo:llava").close()


def test_they_are_listed_without_being_made(zoo, tmp_path):
    by_name = {model.name: model for model in zoo_models()}
    assert by_name["llava"].kind == "model, with parts of zoo:clip"
    assert by_name["llava"].description == "A LLaVA."
    assert by_name["tuned"].kind == "adapter of llava, rank 1"


def test_a_new_tokenizer_makes_a_new_folder(zoo):
    before = unpacked(zoo.folder)
    (zoo.folder / "chat_template.jinja").write_text("{{ 'other' }}")
    assert unpacked(zoo.folder) != before


def test_a_missing_model_other_numbers_and_a_missing_file_are_told_and_leave_nothing_behind(zoo, tmp_path):
    from smelt.files.cache import cache_folder

    zoo.write(towers={"model.vision_tower.": {"from": "zoo:clap", "prefix": "vision_model."}})
    with pytest.raises(
        RecipeError, match=r"zoo:llava: its model\.vision_tower\.\* are those of zoo:clap: .*did you mean 'clip'"
    ):
        unpacked(zoo.folder)
    zoo.write(towers={"model.vision_tower.": {"from": "zoo:clip", "prefix": "visual."}})
    with pytest.raises(CorruptFile, match=r"zoo:clip has no tensors that begin with 'visual\.'"):
        unpacked(zoo.folder)
    zoo.write()
    write_model(
        zoo.home / "clip", random_state(1, {name: info.shape for name, info in open_ref("zoo:clip").tensors.items()})
    )
    with pytest.raises(CorruptFile, match=r"part\.safetensors and its towers \(zoo:clip\) make other numbers"):
        unpacked(zoo.folder)
    (zoo.folder / "part.safetensors").unlink()
    with pytest.raises(CorruptFile, match=r"part\.safetensors is not there"):
        unpacked(zoo.folder)
    assert list((cache_folder() / "zoo").iterdir()) == []


def test_a_note_of_an_unknown_kind_or_with_a_fault_names_it(zoo):
    with pytest.raises(CorruptFile, match=r"no kind of origin named 'tower' \(did you mean 'towers'\?\)"):
        ZooOrigin.load(zoo.write(kind="tower"))
    with pytest.raises(CorruptFile, match=r"towers\.model\.vision_tower\.\.from"):
        ZooOrigin.load(zoo.write(towers={"model.vision_tower.": {"prefix": "x"}}))
