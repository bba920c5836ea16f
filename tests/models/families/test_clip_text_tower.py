"""The text tower of a CLIP model by itself, and models that read with the tower of another one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from pico_clip import COLOURS, SIDE, TEMPLATES, colour_clip, random_clip, random_conv_clip, save_clip
from smelt.errors import RecipeError
from smelt.models.families.clip.text_tower import read_by, text_tower
from smelt.models.families.load import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`colours` knows colours; `random` and `conv` are of random numbers; `expert` is `colours` with other pictures."""
    root = tmp_path_factory.mktemp("towers")
    save_clip(colour_clip(), root / "colours")
    save_clip(random_clip(1), root / "random")
    save_clip(random_conv_clip(2), root / "conv")
    expert = colour_clip()
    with torch.no_grad():
        expert.vision_model.embeddings.patch_embedding.weight[:3] *= 2
        expert.visual_projection.weight *= 3
    save_clip(expert, root / "expert")
    return root


def model(folder, name):
    return load(str(folder / name), "classifier")


def pictures():
    return np.random.default_rng(0).integers(0, 255, (4, SIDE, SIDE, 3), dtype=np.uint8)


def test_models_that_share_a_text_tower_are_known_by_it_whatever_they_see_with(folder):
    towers = {name: text_tower(folder / name) for name in ("colours", "expert", "random", "conv")}
    assert towers["colours"] == towers["expert"]
    assert len({tower.hash for tower in towers.values()}) == 3
    assert towers["colours"].width == 3


def test_pictures_are_seen_by_the_models_own_tower_and_texts_by_the_readers(folder):
    own, reader = model(folder, "expert"), model(folder, "random")
    read = read_by(own, reader)
    assert torch.equal(read.features(pictures()), own.features(pictures()))
    assert torch.equal(read.text_features(["red"]), reader.text_features(["red"]))
    assert torch.equal(read.head(list(COLOURS), TEMPLATES), reader.head(list(COLOURS), TEMPLATES))
    assert torch.equal(own.text_features(["red"]), model(folder, "expert").text_features(["red"])), "it stays as it was"


def test_read_by_itself_a_model_is_the_same_by_every_hash(folder):
    own = model(folder, "colours")
    same = read_by(own, own)
    assert [same.hash, same.rest_hash, same.identity] == [own.hash, own.rest_hash, own.identity]


def test_another_tower_is_another_identity(folder):
    own, reader = model(folder, "colours"), model(folder, "random")
    read = read_by(own, reader)
    words = ("hash", "rest_hash", "identity", "text_identity")
    assert not any(getattr(read, word) == getattr(own, word) for word in words)
    assert not any(getattr(read, word) == getattr(reader, word) for word in words)
    assert read.vision_hash == own.vision_hash


def test_another_tokenizer_with_the_same_numbers_is_another_identity(folder, tmp_path):
    other = shutil.copytree(folder / "colours", tmp_path / "other")
    file = other / "tokenizer_config.json"
    file.write_text(file.read_text().replace("{", '{"told_apart": 1,', 1))
    own, reader = model(folder, "colours"), load(str(other), "classifier")
    read = read_by(own, reader)
    assert read.rest_hash == own.rest_hash
    assert read.text_identity != own.text_identity
    assert read.identity != own.identity


def test_a_longer_text_is_read_as_far_as_the_reader_reads(folder, tmp_path):
    from transformers import CLIPModel

    long = random_clip(3)
    long.config.text_config.max_position_embeddings = 20
    torch.manual_seed(0)
    save_clip(CLIPModel(long.config).eval(), tmp_path / "long")
    own, reader = model(folder, "colours"), load(str(tmp_path / "long"), "classifier")
    words = [" ".join(["red"] * 14 + [end]) for end in ("green", "blue")]
    assert torch.equal(*own.text_features(words)), "ten words are read, then the text is cut"
    assert not torch.equal(*read_by(own, reader).text_features(words))


def test_a_tower_of_another_kind_of_model_reads_too(folder):
    own, reader = model(folder, "conv"), model(folder, "colours")
    read = read_by(own, reader)
    assert torch.equal(read.features(pictures()), own.features(pictures()))
    assert torch.equal(read.text_features(["blue"]), reader.text_features(["blue"]))


def test_towers_that_meet_in_no_common_space_are_refused(folder, tmp_path):
    from transformers import CLIPModel

    wide = random_clip(3)
    wide.config.projection_dim = 5
    save_clip(CLIPModel(wide.config).eval(), tmp_path / "wide")
    with pytest.raises(RecipeError, match=r"its texts have 5 numbers, but the pictures of .* have 3"):
        read_by(model(folder, "colours"), load(str(tmp_path / "wide"), "classifier"))


def test_weights_without_a_text_tower_have_none(folder, tmp_path):
    from safetensors.torch import save_file

    save_file({"vision_model.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    assert text_tower(tmp_path) is None
