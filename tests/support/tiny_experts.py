"""Tiny mixtures of experts of real architectures, and the same models in the layouts that they are found in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

__all__ = ["EXPERTS", "KINDS", "logits", "made", "mean", "permuted", "saved", "saved_as_module"]

EXPERTS = 4
_COMMON: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "max_position_embeddings": 32, "intermediate_size": 12, "num_experts_per_tok": 2,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
}  # fmt: skip
_DEEPSEEK: dict[str, Any] = {
    "moe_intermediate_size": 8, "n_routed_experts": EXPERTS, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_group": 2, "topk_group": 1, "kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
    "v_head_dim": 4, "head_dim": 4,
}  # fmt: skip
KINDS: Mapping[str, dict[str, Any]] = {
    "Mixtral": {"num_local_experts": EXPERTS},
    "Qwen2Moe": {"moe_intermediate_size": 8, "shared_expert_intermediate_size": 12, "num_experts": EXPERTS},
    "Qwen3Moe": {"moe_intermediate_size": 8, "num_experts": EXPERTS, "head_dim": 4},
    "Olmoe": {"num_experts": EXPERTS},
    "DeepseekV2": {**_DEEPSEEK, "topk_method": "group_limited_greedy"},
    "DeepseekV3": _DEEPSEEK,
    "Glm4Moe": {**_DEEPSEEK, "head_dim": 4},
    "Jamba": {
        "num_experts": EXPERTS,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 4,
        "mamba_dt_rank": 4,
    },
    "Phimoe": {"num_local_experts": EXPERTS},
    "GraniteMoe": {"num_local_experts": EXPERTS},
    "GptOss": {"num_local_experts": EXPERTS, "head_dim": 4},
    "Llama4": {"num_local_experts": EXPERTS, "head_dim": 4, "intermediate_size_mlp": 12, "num_experts_per_tok": 1},
}
"""By the beginning of the class's name, what a config of it says beside the common sizes."""
_CONFIGS = {"Llama4": "Llama4TextConfig"}


@cache
def _config(kind: str) -> Any:
    import transformers

    return getattr(transformers, _CONFIGS.get(kind, f"{kind}Config"))(**{**_COMMON, **KINDS[kind]})


def made(kind: str, seed: int) -> nn.Module:
    """A model with numbers of its own in every tensor."""
    import transformers

    draw = torch.Generator().manual_seed(seed)
    model: nn.Module = getattr(transformers, f"{kind}ForCausalLM")(_config(kind)).eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "inv_freq" not in name:
                tensor.copy_(0.3 * torch.randn(tensor.shape, generator=draw))
    return model


def saved(model: Any, folder: Path) -> str:
    """As the library saves it."""
    model.save_pretrained(folder)
    return str(folder)


def saved_as_module(model: Any, folder: Path) -> str:
    """Under the names of the module, with a layer's experts in one tensor."""
    saved(model, folder)
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def mean(models: list[nn.Module]) -> dict[str, Tensor]:
    """The plain average by hand, rounded once."""
    states = [model.state_dict() for model in models]
    return {name: (sum(state[name].double() for state in states) / len(states)).float() for name in states[0]}


def logits(model: Any) -> Tensor:
    """What a model says of a few tokens."""
    with torch.no_grad():
        result: Tensor = model(torch.arange(3, 15)[None]).logits
    return result


def permuted(folder: Path, out: Path, orders: Mapping[str, list[int]]) -> str:
    """The same model with its experts in another order: `orders` by block, the old number of every new expert."""
    shutil.copytree(folder, out)
    state = load_file(folder / "model.safetensors")
    new = dict(state)
    for block, order in orders.items():
        for name, tensor in state.items():
            if not name.startswith(f"{block}.") or "shared" in name:
                continue
            parts = name.removeprefix(f"{block}.").split(".")
            if parts[0] == "experts" and parts[1].isdigit():
                old = ".".join([block, "experts", str(order[int(parts[1])]), *parts[2:]])
                new[name] = state[old]
            else:
                new[name] = tensor[order].contiguous()
    save_file(new, out / "model.safetensors", {"format": "pt"})
    return str(out)


def config_of(folder: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
    return content
