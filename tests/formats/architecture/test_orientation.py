"""How linear layers are stored, told from shapes and configs: against the classes of real models, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from smelt.formats.architecture.layout import Matrices, Orientation


def network(kind: str, **words: Any) -> tuple[Any, dict[str, Any]]:
    """A tiny model of a class of transformers, without numbers, and its config."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(**words)
    with torch.device("meta"):
        return getattr(transformers, f"{kind}Model")(config), config.to_dict()


SMALL = {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 40}
OF_CONV1D = {
    "GPT2": {**SMALL, "n_positions": 8, "add_cross_attention": True},
    "OpenAIGPT": {**SMALL, "n_positions": 8},
    "ImageGPT": {**SMALL, "n_positions": 8},
    "DecisionTransformer": {"hidden_size": 24, "n_layer": 2, "n_head": 2, "n_positions": 8, "max_ep_len": 8},
    "GPTBigCode": {**SMALL, "n_positions": 8},
    "GPTNeo": {"hidden_size": 24, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]},
}


@pytest.mark.parametrize("told", [True, False], ids=["with its config", "bare"])
@pytest.mark.parametrize("kind", OF_CONV1D)
def test_layers_are_told_apart_as_their_classes_are(kind: str, told: bool) -> None:
    """GPT-2's Conv1D is [in, out]. StarCoder's layers of the same names are ordinary, and so is a square Linear."""
    from transformers.pytorch_utils import Conv1D

    model, config = network(kind, **OF_CONV1D[kind])
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    known = Orientation(shapes, config if told else None)
    layers = {n: m for n, m in model.named_modules() if isinstance(m, Conv1D | torch.nn.Linear) and "embed" not in n}
    assert len(layers) > 5
    for name, module in layers.items():
        shape, turned = shapes[f"{name}.weight"], isinstance(module, Conv1D)
        assert known.of(f"{name}.weight") == Matrices(1, shape[::-1] if turned else shape, turned), name


MOE = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40}
EXPERTS = {
    "GptOss": ({**MOE, "num_local_experts": 3, "head_dim": 8}, True),
    "Llama4Text": ({**MOE, "num_local_experts": 3, "intermediate_size_mlp": 24, "interleave_moe_layer_step": 1}, True),
    "Mixtral": ({**MOE, "num_local_experts": 3}, False),
    "Qwen3Moe": ({**MOE, "num_experts": 3, "moe_intermediate_size": 12, "decoder_sparse_step": 1}, False),
    "DeepseekV3": ({**MOE, "n_routed_experts": 4, "moe_intermediate_size": 12, "first_k_dense_replace": 0}, False),
    "GraniteMoe": ({**MOE, "num_local_experts": 3}, False),
    "JetMoe": ({**MOE, "num_local_experts": 3, "kv_channels": 4, "num_key_value_heads": 2}, False),
    "AriaText": ({**MOE, "moe_num_experts": 3}, True),
}
GIVES = ("down_proj", "output_linear.weight")


@pytest.mark.parametrize("told", [True, False], ids=["with its config", "bare"])
@pytest.mark.parametrize("kind", EXPERTS)
def test_experts_in_one_tensor_are_a_stack_of_layers(kind: str, told: bool) -> None:
    """Each begins or ends at the model's width of 16."""
    words, turned = EXPERTS[kind]
    model, config = network(kind, **words)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    known = Orientation(shapes, config if told else None)
    stacks = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    assert len(stacks) >= 4
    for name, (count, first, second) in stacks.items():
        found = known.of(name)
        assert found == Matrices(count, (second, first) if turned else (first, second), turned), name
        assert found.shape[0 if name.endswith(GIVES) else 1] == 16, name


def test_dbrx_lays_its_experts_below_one_another() -> None:
    shapes = {
        "blocks.0.ffn.router.layer.weight": (4, 16),
        "blocks.0.ffn.experts.mlp.w1": (4 * 10, 16),
        "blocks.0.ffn.experts.mlp.v1": (4 * 10, 16),
        "blocks.0.ffn.experts.mlp.w2": (4 * 10, 16),
    }
    known = Orientation(shapes)
    assert known.of("blocks.0.ffn.experts.mlp.w1") == Matrices(4, (10, 16))
    assert known.of("blocks.0.ffn.experts.mlp.w2") == Matrices(4, (16, 10), True)
    alone = Orientation({"blocks.0.ffn.experts.mlp.w1": (40, 16)}).of("blocks.0.ffn.experts.mlp.w1")
    assert "says how many" in alone.doubt


def test_experts_of_a_gguf_file_are_a_stack() -> None:
    shapes = {"blk.0.ffn_gate_inp.weight": (3, 8), "blk.0.ffn_down_exps.weight": (3, 8, 20)}
    assert Orientation(shapes).of("blk.0.ffn_down_exps.weight") == Matrices(3, (8, 20))


def test_biases_of_experts_are_one_row_each() -> None:
    shapes = {"l.0.mlp.experts.gate_up_proj": (3, 8, 20), "l.0.mlp.experts.gate_up_proj_bias": (3, 20)}
    known = Orientation(shapes)
    assert known.of("l.0.mlp.experts.gate_up_proj") == Matrices(3, (20, 8), True)
    assert known.of("l.0.mlp.experts.gate_up_proj_bias") == Matrices(3, (20,))


def test_square_experts_follow_those_beside_them() -> None:
    """As in gpt-oss-20b, whose experts are as wide inside as outside."""
    shapes = {
        "l.0.mlp.router.weight": (3, 8),
        "l.0.mlp.experts.gate_up_proj": (3, 8, 16),
        "l.0.mlp.experts.down_proj": (3, 8, 8),
    }
    assert Orientation(shapes).of("l.0.mlp.experts.down_proj") == Matrices(3, (8, 8), True)


def test_experts_of_which_nothing_tells_are_in_doubt() -> None:
    shapes = {"l.0.mlp.experts.gate_up_proj": (3, 8, 16)}
    assert "8 by 16" in Orientation(shapes).of("l.0.mlp.experts.gate_up_proj").doubt
    square = {"l.0.mlp.experts.gate_up_proj": (3, 8, 8), "l.0.mlp.experts.down_proj": (3, 8, 8)}
    assert Orientation(square).of("l.0.mlp.experts.down_proj").doubt
    word = {"model_type": "vl", "text_config": {"model_type": "gpt_oss"}}
    assert Orientation(square, word).of("l.0.mlp.experts.down_proj") == Matrices(3, (8, 8), True)


@pytest.mark.parametrize(
    "name", ["encoder.conv1.weight", "layers.0.mamba.conv1d.weight", "l.0.moe.experts.2.conv.weight"]
)
def test_kernels_of_convolutions_are_no_stacks(name: str) -> None:
    assert Orientation({name: (8, 4, 3)}).of(name).as_stored((8, 4, 3))


def test_a_square_layer_follows_its_namesakes_and_then_its_neighbours() -> None:
    shapes = {
        "h.0.attn.c_proj.weight": (8, 8),
        "h.0.attn.c_proj.bias": (8,),
        "h.0.mlp.c_proj.weight": (32, 8),
        "h.0.mlp.c_proj.bias": (8,),
        "h.0.cross.c_attn.weight": (8, 16),
        "h.0.cross.c_attn.bias": (16,),
        "h.0.cross.q_attn.weight": (8, 8),
        "h.0.cross.q_attn.bias": (8,),
        "score.weight": (2, 8),
    }
    known = Orientation(shapes)
    assert known.of("h.0.attn.c_proj.weight").transposed
    assert known.of("h.0.cross.q_attn.weight").transposed
    assert not known.of("score.weight").transposed
    turned = {name: shape[::-1] for name, shape in shapes.items()}
    assert not any(Orientation(turned).of(name).transposed for name in turned)


def test_projections_that_are_bare_parameters_are_stored_as_in_and_out() -> None:
    known = Orientation(
        {"visual.proj": (768, 512), "text_projection": (512, 512), "text_projection.weight": (512, 512)}
    )
    assert known.of("visual.proj") == Matrices(1, (512, 768), True)
    assert known.of("text_projection").transposed
    assert not known.of("text_projection.weight").transposed


def test_embeddings_and_vectors_are_what_they_are() -> None:
    shapes = {"wte.weight": (40, 8), "ln_f.weight": (8,), "wpe.weight": (16, 8), "wpe.bias": (8,)}
    assert all(Orientation(shapes).of(name).as_stored(shape) for name, shape in shapes.items())
