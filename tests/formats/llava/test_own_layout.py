"""Checkpoints of LLaVA's own training code, read under the names of transformers' LLaVA."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from smelt import merge
from smelt.errors import CorruptFile, RecipeError
from smelt.evaluation.load import load_model
from smelt.formats.source import read_whole
from smelt.models.references import open_ref
from smelt.testing.pico_own_llava import (
    WORDS,
    own_state,
    save_language,
    save_own_llava,
    save_projector,
    save_tower,
)


@pytest.fixture
def tower(tmp_path: Path) -> str:
    return str(save_tower(tmp_path / "clip"))


def test_tensors_have_hugging_face_s_names_and_the_tower_comes_from_where_the_config_says(
    tmp_path: Path, tower: str
) -> None:
    source = open_ref(str(save_own_llava(tmp_path / "own", tower)))
    state = own_state()
    projector = read_whole(source, "model.multi_modal_projector.linear_2.weight")
    assert torch.equal(projector, state["model.mm_projector.2.weight"])
    layer = "layers.1.self_attn.q_proj.weight"
    assert torch.equal(read_whole(source, f"model.language_model.{layer}"), state[f"model.{layer}"])
    clip = open_ref(tower)
    seen = read_whole(source, "model.vision_tower.embeddings.patch_embedding.weight")
    assert torch.equal(seen, read_whole(clip, "vision_model.embeddings.patch_embedding.weight"))
    assert not any("text_model" in name or "mm_projector" in name for name in source.tensors)


def test_the_rows_of_the_added_tokens_are_the_mean_of_all_others(tmp_path: Path, tower: str) -> None:
    source = open_ref(str(save_own_llava(tmp_path / "own", tower)))
    name = "model.language_model.embed_tokens.weight"
    whole, stored = read_whole(source, name), own_state()["model.embed_tokens.weight"]
    assert (whole.shape, stored.shape) == ((320, 16), (WORDS, 16))  # 265 words and two tokens, a multiple of 64
    assert torch.equal(whole[:WORDS], stored)
    torch.testing.assert_close(whole[WORDS:], stored.mean(dim=0).expand(320 - WORDS, 16))
    part = torch.empty(40)  # from the middle of a stored row into an added one
    source.read(name, WORDS * 16 - 12, part)
    assert torch.equal(part, whole.view(-1)[WORDS * 16 - 12 : WORDS * 16 + 28])
    source.read(name, WORDS * 16 + 5, part)
    assert torch.equal(part, whole.view(-1)[WORDS * 16 + 5 : WORDS * 16 + 45])


@pytest.mark.parametrize("model_type", ["llava", "llava_llama"])
@pytest.mark.parametrize("pickled", [False, True])
def test_a_merge_is_a_model_that_transformers_loads_and_that_answers_as_the_average_does(
    tmp_path: Path, tower: str, model_type: str, pickled: bool
) -> None:
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    words = {"model_type": model_type, "pickled": pickled}
    models = {
        name: str(save_own_llava(tmp_path / name, tower, change=size, **words))
        for name, size in (("a", 0.1), ("b", 0.3))
    }
    merge({"pool": {"models": models}, "merge": "average", "allow_pickle": True}, out=tmp_path / "merged")
    loaded, said = LlavaForConditionalGeneration.from_pretrained(tmp_path / "merged", output_loading_info=True)
    assert not any(said[word] for word in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    mean = (own_state(change=0.1)["lm_head.weight"] + own_state(change=0.3)["lm_head.weight"]) / 2
    torch.testing.assert_close(loaded.lm_head.weight[:WORDS], mean)
    assert (loaded.config.image_token_id, loaded.config.text_config.vocab_size) == (WORDS, 320)
    processor = AutoProcessor.from_pretrained(tmp_path / "merged", use_fast=False)
    assert processor.tokenizer.convert_tokens_to_ids("<image>") == WORDS


def test_it_is_asked_in_llava_s_own_words_and_sees_pictures_padded_to_a_square(tmp_path: Path, tower: str) -> None:
    from smelt.tasks.questions.prompts import conversations
    from smelt.tasks.registry import find_task

    task = find_task("lmms:ai2d")
    model = load_model(str(save_own_llava(tmp_path / "own", tower)), task)
    (chat,) = conversations(model, ["What is it?"])
    assert chat.startswith("A chat between a curious user and an artificial intelligence assistant.")
    assert chat.endswith("USER: <image>\nWhat is it? ASSISTANT:")
    wide = np.zeros((4, 8, 3), dtype=np.uint8)
    (shaped,) = model.preprocess.shape([wide])
    assert shaped.shape == (8, 8, 3)
    assert shaped[0, 0].tolist() == [127, 102, 76]  # 255 times the mean colour 0.5, 0.4, 0.3
    assert shaped[4, 4].tolist() == [0, 0, 0]


def test_the_projector_of_the_first_stage_goes_over_its_language_model(tmp_path: Path, tower: str) -> None:
    language, projector = save_language(tmp_path / "vicuna"), save_projector(tmp_path / "stage1", tower)
    composed = open_ref(f"{language}+{projector}", allow_pickle=True)
    whole = open_ref(str(save_own_llava(tmp_path / "own", tower)))
    assert composed.tensors == whole.tensors
    for name in whole.tensors:
        assert torch.equal(read_whole(composed, name), read_whole(whole, name))
    with pytest.raises(CorruptFile, match=r"pickles .mm_projector.bin."):
        open_ref(f"{language}+{projector}")


def test_a_tower_in_the_checkpoint_is_its_own(tmp_path: Path, tower: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_own_llava(tmp_path / "own", tower, shards=1)
    file = folder / "model-00001-of-00001.safetensors"
    clip = {name: one for name, one in load_file(Path(tower) / "model.safetensors").items() if "vision_model" in name}
    own = {f"model.vision_tower.vision_tower.{name}": one + 1 for name, one in clip.items()}
    save_file({**load_file(file), **own}, file)
    (folder / "model.safetensors.index.json").unlink()
    name = "model.vision_tower.pre_layrnorm.weight"
    found = read_whole(open_ref(str(folder)), name)
    assert torch.equal(found, own["model.vision_tower.vision_tower.vision_model.pre_layrnorm.weight"])


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("mm_projector_type", "linear", "its projector is 'linear'"),
        ("mm_use_im_start_end", True, "between tokens of their own"),
        ("mm_vision_tower", None, "which vision tower"),
    ],
)
def test_what_transformers_llava_has_no_place_for_is_refused(
    tmp_path: Path, tower: str, word: str, value: object, said: str
) -> None:
    folder = save_own_llava(tmp_path / "own", tower)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, word: value}))
    with pytest.raises(RecipeError, match=said):
        open_ref(str(folder))
