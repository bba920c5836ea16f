"""A tower that is saved alone has the names it has in the whole model."""

import torch

from checkpoints import write_model
from smelt.testing.pico import load

TOWER = {"embeddings.class_embedding": torch.ones(4), "encoder.layers.0.mlp.fc1.weight": torch.arange(8.0).view(2, 4)}


def test_a_tower_without_its_prefix_gets_it(tmp_path):
    for kind, prefix in (("clip_vision_model", "vision_model."), ("clip_text_model", "text_model.")):
        read = load(write_model(tmp_path / kind, TOWER, {"model_type": kind}))
        assert read.keys() == {prefix + name for name in TOWER}
        assert torch.equal(read[f"{prefix}encoder.layers.0.mlp.fc1.weight"], torch.arange(8.0).view(2, 4))


def test_a_tower_with_its_prefix_keeps_it(tmp_path):
    named = {f"vision_model.{name}": tensor for name, tensor in TOWER.items()}
    projected = {**named, "visual_projection.weight": torch.ones(2, 2)}
    assert load(write_model(tmp_path / "a", named, {"model_type": "clip_vision_model"})).keys() == named.keys()
    assert load(write_model(tmp_path / "b", projected, {"model_type": "clip_vision_model"})).keys() == projected.keys()


def test_other_models_keep_their_names(tmp_path):
    for number, config in enumerate(({"model_type": "vit"}, {"model_type": ["odd"]}, {}, None)):
        assert load(write_model(tmp_path / str(number), TOWER, config)).keys() == TOWER.keys()
