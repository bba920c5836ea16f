"""Models that see and read have one name for a tensor, whichever version of transformers wrote their files."""

import pytest
import torch

import smelt
from smelt.formats.source import read_whole
from smelt.models.references import open_ref
from tiny_multimodal import CONFIGS, OLDER_NAMES, multimodal, save_as_transformers_4, scores

KINDS = sorted(CONFIGS)


def loaded(folder):
    from transformers import AutoModelForImageTextToText

    model, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_both_versions_have_the_names_of_the_model_in_memory(kind, tmp_path):
    model = multimodal(kind)
    model.save_pretrained(tmp_path / "new")
    save_as_transformers_4(model, tmp_path / "old")
    in_memory = {name for name, _ in model.named_parameters()}  # a tied head is no parameter of its own
    for folder in ("new", "old"):
        source = open_ref(str(tmp_path / folder))
        assert set(source.tensors) == in_memory, folder
        source.close()


@pytest.mark.parametrize("kind", sorted(OLDER_NAMES))
def test_an_old_and_a_new_file_of_one_model_merge_to_that_model(kind, tmp_path):
    model = multimodal(kind)
    model.save_pretrained(tmp_path / "new")
    save_as_transformers_4(model, tmp_path / "old")
    smelt.merge({"new": tmp_path / "new", "old": tmp_path / "old"}, method="average", out=tmp_path / "out")
    again = loaded(tmp_path / "out")
    assert torch.equal(scores(again, kind), scores(model, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_two_is_the_mean_of_all_parameters_and_loads(kind, tmp_path):
    one, two = multimodal(kind, 1), multimodal(kind, 2)
    if kind == "llava":  # whose tower no fine-tune changes
        two.model.vision_tower.load_state_dict(one.model.vision_tower.state_dict())
    one.save_pretrained(tmp_path / "one")
    save_as_transformers_4(two, tmp_path / "two")
    smelt.merge({"one": tmp_path / "one", "two": tmp_path / "two"}, method="average", out=tmp_path / "out")
    merged = loaded(tmp_path / "out")
    theirs = dict(two.named_parameters())
    for name, own in one.named_parameters():
        torch.testing.assert_close(merged.get_parameter(name), (own + theirs[name]) / 2, msg=name)
    assert not torch.equal(scores(merged, kind), scores(one, kind))


def test_tensors_without_a_config_are_known_by_the_names_of_their_parts(tmp_path):
    save_as_transformers_4(multimodal("qwen2_vl"), tmp_path / "old")
    (tmp_path / "old" / "config.json").unlink()
    names = set(open_ref(str(tmp_path / "old")).tensors)
    assert {name.split(".")[1] for name in names} == {"language_model", "visual", "weight"}


def test_a_model_of_texts_alone_keeps_its_names():
    """`model.layers...` is also how a Qwen2-VL of transformers 4 begins its language model."""
    from smelt.formats.source import MemorySource
    from smelt.formats.views.view import with_common_names

    state = {name: torch.zeros(2) for name in ("model.layers.0.mlp.up_proj.weight", "lm_head.weight")}
    source = MemorySource("text", state)
    assert with_common_names(source) is source


@pytest.mark.parametrize("kind", ["qwen2_vl", "llava", "paligemma"])
def test_an_adapter_trained_under_older_names_changes_the_same_tensors(kind, tmp_path):
    """As those of transformers 4 are: `model.layers.0...` or `language_model.model.layers.0...`."""
    from safetensors.torch import load_file, save_file

    peft = pytest.importorskip("peft")
    multimodal(kind).save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=2, target_modules=r".*language_model.*q_proj", init_lora_weights=False)
    adapted = peft.get_peft_model(multimodal(kind), config)
    adapted.save_pretrained(tmp_path / "now")
    adapted.save_pretrained(tmp_path / "older")
    file = tmp_path / "older" / "adapter_model.safetensors"
    now, older = "model.language_model.", OLDER_NAMES[kind]["model.language_model."]
    save_file({name.replace(f".model.{now}", f".model.{older}"): one for name, one in load_file(file).items()}, file)
    (first, second) = (open_ref(f"{tmp_path / 'base'}+{tmp_path / name}") for name in ("now", "older"))
    key = f"{now}layers.1.self_attn.q_proj.weight"
    assert second.changes(key)
    assert torch.equal(read_whole(first, key), read_whole(second, key))
    assert not torch.equal(read_whole(first, key), multimodal(kind).get_parameter(key))
