"""Which tensors of real architectures are experts, shared experts and routers, by their names."""

from __future__ import annotations

import pytest

from smelt.recipe.groups import group_of
from smelt.recipe.patterns import matches


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.layers.0.mlp.experts.7.up_proj.weight", "experts"),
        ("model.layers.0.block_sparse_moe.experts.7.w1.weight", "experts"),
        ("model.layers.0.mlp.experts.gate_up_proj_bias", "experts"),
        ("transformer.blocks.0.ffn.experts.mlp.w1", "experts"),
        ("model.layers.0.block_sparse_moe.input_linear.weight", "experts"),
        ("model.layers.0.mlp.shared_expert.up_proj.weight", "shared_experts"),
        ("model.layers.0.mlp.shared_experts.up_proj.weight", "shared_experts"),
        ("model.layers.0.mlp.shared_expert_gate.weight", "shared_experts"),
        ("model.layers.0.shared_mlp.input_linear.weight", "shared_experts"),
        ("model.layers.0.mlp.gate.weight", "routers"),
        ("model.layers.0.mlp.gate.e_score_correction_bias", "routers"),
        ("model.layers.0.block_sparse_moe.e_score_correction_bias", "routers"),
        ("model.layers.0.block_sparse_moe.router.layer.weight", "routers"),
        ("model.layers.0.mlp.router.bias", "routers"),
        ("model.layers.0.feed_forward.router.weight", "routers"),
        ("transformer.blocks.0.ffn.router.layer.weight", "routers"),
        ("model.layers.0.mlp.gate_proj.weight", None),
        ("model.layers.0.self_attn.gate.weight", None),
        ("model.layers.0.mlp.up_proj.weight", None),
        ("lm_head.weight", None),
    ],
)
def test_a_tensor_is_in_one_group_at_most(name: str, group: str | None) -> None:
    assert group_of(name) == group
    assert [one for one in ("experts", "shared_experts", "routers") if matches(one, name)] == ([group] if group else [])


def test_a_tensor_of_that_very_name_is_still_matched() -> None:
    assert matches("experts", "experts")
