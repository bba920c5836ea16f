"""References: paths with or without `dir:`, relative to the recipe, adapters over bases, the hub by name."""

import json

import pytest
import torch
from safetensors.torch import save_file

from checkpoints import state, write_model
from smelt.errors import RecipeError
from smelt.models.references import open_ref
from smelt.recipe.reference_name import ref_name


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("path/to/cars", "cars"),
        ("path/to/cars/", "cars"),
        ("dir:cars", "cars"),
        ("hf:org/cars", "cars"),
        ("hf:org/cars@v2", "cars"),
        ("cars.safetensors", "cars"),
        ("x/cars.gguf", "cars"),
        ("zoo:clip-tiny-photos", "clip-tiny-photos"),
        ("zoo:clip-tiny+dir:birds-lora", "clip-tiny+birds-lora"),
        ("dir:base+dir:birds-lora", "base+birds-lora"),
    ],
)
def test_a_model_is_named_after_the_last_part(ref, name):
    assert ref_name(ref) == name


def test_a_path_works_with_and_without_dir(tmp_path):
    write_model(tmp_path / "cars", state())
    for ref in (f"{tmp_path}/cars", f"dir:{tmp_path}/cars", f"{tmp_path}/cars/model.safetensors"):
        assert len(open_ref(ref).tensors) == 6


def test_a_path_may_be_relative_to_the_recipe(tmp_path):
    write_model(tmp_path / "recipes" / "cars", state())
    assert open_ref("cars", relative_to=tmp_path / "recipes").folder == tmp_path / "recipes" / "cars"
    assert open_ref("dir:cars", relative_to=tmp_path / "recipes").folder == tmp_path / "recipes" / "cars"


def test_a_path_may_hold_a_plus_or_an_at(tmp_path):
    for name in ("a+b", "a@b", "a=b"):
        write_model(tmp_path / name, state())
        assert open_ref(str(tmp_path / name)).folder == tmp_path / name


def test_what_is_not_there_is_refused_with_the_way_to_the_hub():
    with pytest.raises(RecipeError, match=r"no model at 'org/cars'.*write hf:org/cars"):
        open_ref("org/cars")


def lora(folder, base, alpha=2):
    folder.mkdir()
    down, up = torch.full((1, 3), 0.5), torch.ones(4, 1)
    stem = "base_model.model.layers.0.mlp"
    save_file({f"{stem}.lora_A.weight": down, f"{stem}.lora_B.weight": up}, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": alpha, "target_modules": ["mlp"]}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": base}))
    return folder


def read(source, key="layers.0.mlp.weight"):
    out = torch.empty(source.tensors[key].count)
    source.read(key, 0, out)
    return out.tolist()


def test_an_adapter_is_laid_over_the_base_that_the_reference_names(tmp_path):
    base = write_model(tmp_path / "base", state())
    lora(tmp_path / "lora", None)
    source = open_ref(f"dir:{base}+dir:{tmp_path / 'lora'}")
    assert read(source) == [1.0 + 2 * 0.5] * 12
    assert {path.parent.name for path in source.files} == {"base", "lora"}


def test_an_adapter_alone_is_laid_over_the_base_that_its_config_names(tmp_path):
    base = write_model(tmp_path / "base", state())
    assert read(open_ref(str(lora(tmp_path / "lora", str(base))))) == [2.0] * 12


def test_an_adapter_without_a_base_is_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"does not name its base; write BASE\+"):
        open_ref(str(lora(tmp_path / "lora", None)))


def test_a_hub_model_that_cannot_be_had_is_refused_in_words(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(RecipeError, match="hf:org/ghost-of-a-model"):
        open_ref("hf:org/ghost-of-a-model")
