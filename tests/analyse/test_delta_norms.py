"""Lengths of task vectors per layer, by hand."""

import math

import pytest

from analysed_by_hand import pool, tensors
from smelt.analyse import delta_norms
from smelt.formats.architecture.layers import layers_in_order

BASE = tensors(layers__0__w=[0, 6], layers__0__b=[8], layers__1__w=[6, 8], norm__w=[1])


def test_lengths_per_layer_and_over_all():
    far = tensors(layers__0__w=[3, 6], layers__0__b=[12], layers__1__w=[6, 20], norm__w=[1])
    found = delta_norms(pool(BASE, near=BASE, far=far))
    assert found.layers == ("layers.0", "layers.1")
    assert found.base == (10.0, 10.0)
    assert found.models == {"near": (0.0, 0.0), "far": (5.0, 12.0)}
    assert found.relative["far"] == pytest.approx((0.5, 1.2))
    assert found.whole == {"near": 0.0, "far": 13.0}
    assert found.whole_relative["far"] == pytest.approx(13 / math.sqrt(100 + 100 + 1))


def test_layers_that_nobody_changed_are_named_and_left_out():
    found = delta_norms(pool(BASE, a={**BASE, **tensors(layers__1__w=[6, 9])}))
    assert (found.layers, found.unchanged) == (("layers.1",), ("layers.0", "norm"))


def test_a_base_of_zeros_has_no_relative_length():
    found = delta_norms(pool(tensors(w=[0]), a=tensors(w=[2])))
    assert found.models == {"a": (2.0,)}
    assert math.isnan(found.relative["a"][0])
    assert found.to_json()["relative"] == {"a": [None]}
    assert found.to_json()["models"] == {"a": [2.0]}


def test_layers_follow_the_data():
    keys = """
    logit_scale text_model.embeddings.token_embedding.weight text_model.encoder.layers.0.mlp.fc1.weight
    text_model.final_layer_norm.weight vision_model.embeddings.class_embedding vision_model.pre_layrnorm.weight
    vision_model.encoder.layers.10.mlp.fc1.weight vision_model.encoder.layers.9.mlp.fc1.weight
    vision_model.post_layernorm.bias visual_projection.weight
    """.split()
    assert list(dict.fromkeys(layers_in_order(keys).values())) == [
        "text_model.embeddings",
        "text_model.encoder.layers.0",
        "text_model.final_layer_norm",
        "vision_model.embeddings",
        "vision_model.pre_layrnorm",
        "vision_model.encoder.layers.9",
        "vision_model.encoder.layers.10",
        "vision_model.post_layernorm",
        "logit_scale",
        "visual_projection",
    ]
    gpt = ["wte.weight", "h.0.mlp.weight", "h.1.mlp.weight", "ln_f.weight"]
    assert list(dict.fromkeys(layers_in_order(gpt[::-1]).values())) == ["wte", "h.0", "h.1", "ln_f"]
