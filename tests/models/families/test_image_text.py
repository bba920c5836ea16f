"""A LLaVA is known, loaded from any layout of names, and computes what transformers computes."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from checkpoints import read_weights
from smelt.errors import RecipeError
from smelt.models.families.family import families
from smelt.models.families.image_text.family import IMAGE_TEXT
from smelt.models.families.image_text.llava import LLAVA
from smelt.models.families.load import family_of, load
from smelt.models.families.network import network_of
from smelt.models.references import open_ref
from smelt.testing.pico_llava import SIDE, llava, llava_tokenizer, save_llava

CHAT = "USER: <image>\nWhat is it?\nASSISTANT:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_llava(tmp_path_factory.mktemp("llava") / "base")


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 3)).astype(np.uint8)


def renamed(folder, out, rename):
    """The same model with its tensors under other names."""
    out.mkdir()
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (out / file.name).write_bytes(file.read_bytes())
    save_file({rename(name): tensor for name, tensor in read_weights(folder).items()}, out / "model.safetensors")
    return out


def test_it_is_a_family_of_its_own_though_it_has_a_vision_config(folder):
    assert family_of(str(folder)) is IMAGE_TEXT is families["image_text"]
    assert family_of(llava()) is IMAGE_TEXT
    assert family_of(llava().state_dict()) is IMAGE_TEXT  # known by its names
    assert load(str(folder)).tower_hash


def test_what_is_merged_is_all_but_the_vision_tower(folder):
    names = open_ref(str(folder)).tensors
    parts = {pattern.removesuffix("*") for pattern in IMAGE_TEXT.merged}
    assert {name for name in names if not name.startswith(tuple(parts))} == {
        name for name in names if name.startswith("model.vision_tower.")
    }


def test_features_and_scores_are_those_of_a_plain_forward_of_transformers(folder, pictures):
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    ours, theirs = load(str(folder), "image_text"), LlavaForConditionalGeneration.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    ids = ours.tokenizer(CHAT)["input_ids"]
    features = ours.features(ours.preprocess.shape(list(pictures)))
    assert features.shape == (3, 4, 8)  # four patches of 4 x 4
    for number, picture in enumerate(pictures):
        inputs = processor(images=picture, text=CHAT, return_tensors="pt")
        assert inputs["input_ids"].shape[1] == len(ids) + 3  # a placeholder becomes four
        with torch.no_grad():
            expected = theirs(**inputs).logits[0, -1]
        found = ours.scores([ids], features[number : number + 1])[0]
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_every_layout_of_names_is_the_same_model(folder, tmp_path):
    first = load(str(folder), "image_text")
    assert any(name.startswith("language_model.model.") for name in read_weights(folder))  # as save_pretrained writes
    public = renamed(
        folder, tmp_path / "public", lambda name: name.replace("vision_tower.", "vision_tower.vision_model.")
    )
    inner = renamed(folder, tmp_path / "inner", LLAVA.names.common)
    assert "vision_tower.vision_model.pre_layrnorm.bias" in read_weights(public)
    assert "model.language_model.norm.weight" in read_weights(inner)
    for other in (public, inner, llava()):
        assert (
            load(other if isinstance(other, torch.nn.Module) else str(other), "image_text", text_from=first).hash
            == first.hash
        )


def test_a_source_a_state_dict_and_a_loaded_model_work_too(folder):
    first = load(str(folder), "image_text")
    source = open_ref(str(folder))
    assert load(source, "image_text").hash == first.hash
    source.close()
    assert load(llava().state_dict(), "image_text", text_from=str(folder)).tower_hash == first.tower_hash
    assert load(first, "image_text") is first


def test_models_that_share_a_tower_have_one_tower_hash_and_others_not(folder, tmp_path):
    first = load(str(folder), "image_text")
    tuned = load(llava(change=0.01), "image_text", text_from=first)
    other = load(llava(tower=0.01), "image_text", text_from=first)
    assert tuned.hash != first.hash
    assert tuned.tower_hash == first.tower_hash
    assert other.tower_hash != first.tower_hash
    assert (
        load(str(folder), "image_text", dtype="bfloat16").tower_hash != first.tower_hash
    )  # it computes other features


def test_an_adapter_with_the_names_of_peft_in_float8_is_read_over_its_base(folder, tmp_path, pictures):
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(
        llava(),
        peft.LoraConfig(r=2, lora_alpha=4, target_modules=r".*(language_model|projector).*(q_proj|up_proj|linear_1)"),
    )
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in adapted.named_parameters():
            if "lora_" in name:
                tensor.copy_(torch.randn(tensor.shape, generator=draw).to(torch.float8_e4m3fn).float())
    adapted.save_pretrained(tmp_path / "lora")
    file = tmp_path / "lora" / "adapter_model.safetensors"
    stored = load_file(file)
    assert "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight" in stored
    assert "base_model.model.model.multi_modal_projector.linear_1.lora_B.weight" in stored
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in stored.items()}, file)
    found = load(f"{folder}+{tmp_path / 'lora'}", "image_text")
    whole = load(adapted.merge_and_unload(), "image_text", text_from=found)
    ids, features = found.tokenizer(CHAT)["input_ids"], found.features(pictures)
    torch.testing.assert_close(
        found.scores([ids] * 3, features), whole.scores([ids] * 3, features), atol=1e-4, rtol=1e-4
    )
    assert found.tower_hash == load(str(folder), "image_text").tower_hash
    assert found.hash != load(str(folder), "image_text").hash


def test_tied_words_stay_one_tensor(tmp_path):
    model = load(str(save_llava(tmp_path / "tied", tie_word_embeddings=True)), "image_text")
    assert model.module.lm_head.weight is model.module.get_input_embeddings().weight


def test_what_is_missing_is_named_with_what_to_do(folder, tmp_path):
    with pytest.raises(RecipeError, match=r"has no config.json"):
        load(llava().state_dict(), "image_text")
    plain = renamed(folder, tmp_path / "plain", str)
    (plain / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(RecipeError, match=r"'llama', which answers no questions about pictures.*llava"):
        load(str(plain), "image_text")
    bare = renamed(folder, tmp_path / "bare", str)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(RecipeError, match="has no chat template"):
        load(str(bare), "image_text")
    (bare / "chat_template.json").write_text(json.dumps({"chat_template": "{{ 'hi' }}"}))  # as older processors have it
    assert load(str(bare), "image_text").template == "{{ 'hi' }}"
    (bare / "preprocessor_config.json").unlink()
    with pytest.raises(RecipeError, match=r"has no preprocessor_config.json"):
        load(str(bare), "image_text")
    short = renamed(folder, tmp_path / "short", str)
    weights = read_weights(short)
    del weights["multi_modal_projector.linear_2.bias"]
    save_file(weights, short / "model.safetensors")
    with pytest.raises(RecipeError, match=r"'model.multi_modal_projector.linear_2.bias' is missing"):
        load(str(short), "image_text")


def test_a_prompt_without_a_place_for_the_picture_is_refused(folder, pictures):
    model = load(str(folder), "image_text")
    with pytest.raises(RecipeError, match="placeholder for a picture 0 times"):
        model.scores([llava_tokenizer()("USER: hi")["input_ids"]], model.features(pictures[:1]))


def test_methods_that_look_at_data_are_told_to_leave_it_alone(folder):
    with pytest.raises(RecipeError, match=r"methods that look at data .* do not work on those"):
        network_of(load(str(folder), "image_text"))
