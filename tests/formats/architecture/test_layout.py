"""Blocks, depth, embeddings and matrices, read from names alone, for families that no list mentions."""

import pytest

from smelt.files.reading import natural
from smelt.formats.architecture.layout import Layout


def test_numbers_sort_as_numbers():
    names = ["layers.10.a", "layers.9.a", "layers.9.b", "embed", "layers.100.a"]
    assert sorted(names, key=natural) == ["embed", "layers.9.a", "layers.9.b", "layers.10.a", "layers.100.a"]


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("model.layers.7.mlp.up_proj.weight", ("model.layers", 7, "mlp.up_proj.weight")),
        ("transformer.h.0.attn.c_attn.bias", ("transformer.h", 0, "attn.c_attn.bias")),
        (
            "vision_model.encoder.layers.11.layer_norm1.weight",
            ("vision_model.encoder.layers", 11, "layer_norm1.weight"),
        ),
        ("model.layers.3.mlp.experts.5.w1.weight", ("model.layers", 3, "mlp.experts.5.w1.weight")),
        ("encoder.block.2.layer.0.SelfAttention.q.weight", ("encoder.block", 2, "layer.0.SelfAttention.q.weight")),
        ("0.weight", ("", 0, "weight")),
        ("model.norm.weight", None),
        ("layer1.weight", None),
        ("linear_1.weight", None),
    ],
)
def test_the_first_number_between_dots_is_the_block(name, block):
    assert Layout.block(name) == block


def test_stacks_are_counted_by_their_prefix():
    names = (
        [f"text.layers.{n}.w" for n in range(3)] + [f"vision.layers.{n}.{p}" for n in range(5) for p in "ab"] + ["x"]
    )
    layout = Layout.of(names)
    assert layout.stacks == {"text.layers": 3, "vision.layers": 5}
    assert layout.main_stack == "vision.layers"
    assert Layout.of(["a.weight"]).main_stack is None


def test_depth_runs_within_each_stack():
    layout = Layout.of([f"a.{n}.w" for n in range(5)] + [f"b.{n}.w" for n in range(3)] + ["c.0.w"])
    assert [layout.depth(f"a.{n}.w") for n in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    assert [layout.depth(f"b.{n}.w") for n in range(3)] == [0, 0.5, 1]
    assert layout.depth("c.0.w") in (0, 1), "a stack of one block has no middle"


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight", "transformer.wte.weight", "shared.weight", "vit.embeddings.cls_token",
        "vision_model.embeddings.patch_embedding.weight", "bert.embeddings.LayerNorm.weight", "visual.conv1.weight",
    ],
)  # fmt: skip
def test_embeddings_lie_before_the_blocks(name):
    assert Layout.of([name, "h.0.w", "h.1.w"]).depth(name) == 0


@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight", "classifier.bias", "visual_projection.weight"])
def test_norms_and_heads_lie_behind_them(name):
    assert Layout.of([name, "h.0.w", "h.1.w"]).depth(name) == 1


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("model.embed_tokens.weight", True),
        ("lm_head.weight", True),
        ("lm_head.bias", True),
        ("text_model.embeddings.token_embedding.weight", True),
        ("cls.predictions.bias", True),
        ("text_model.embeddings.position_embedding.weight", False),
        ("bert.encoder.layer.0.attention.output.dense.weight", False),
        ("model.layers.0.mlp.weight", False),
    ],
)
def test_tensors_with_a_row_per_token_are_known(name, holds):
    assert Layout.holds_vocabulary(name) is holds


def test_matrices_are_linear_layers_not_tables_or_vectors():
    assert Layout.is_matrix("model.layers.0.q_proj.weight", (8, 4))
    assert not Layout.is_matrix("model.embed_tokens.weight", (8, 4))
    assert not Layout.is_matrix("lm_head.weight", (8, 4))
    assert not Layout.is_matrix("model.norm.weight", (8,))
    assert not Layout.is_matrix("vision.patch.weight", (8, 3, 2, 2))
    assert not Layout.is_matrix("logit.weight", (1, 8))
