"""Small models of transformers written as GGUF files by the gguf package, as llama.cpp's converter lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers

__all__ = ["HEADS", "MOE", "SIZES", "converted", "expert_state", "moe", "write_gguf"]

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
MOE = {
    "llama": "MixtralForCausalLM",
    "qwen2moe": "Qwen2MoeForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "deepseek2": "DeepseekV3ForCausalLM",
    "gpt-oss": "GptOssForCausalLM",
}
"""By llama.cpp's architecture."""
_EXPERTS = {"num_experts": 3, "num_local_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_OWN: Mapping[str, dict[str, Any]] = {
    "qwen2moe": {"shared_expert_intermediate_size": 64},
    "qwen3moe": {"head_dim": 32, "norm_topk_prob": True},
    "deepseek2": {
        "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 48,
        "num_key_value_heads": 4,
    },
    "gpt-oss": {"head_dim": 16, "intermediate_size": 64},
}  # fmt: skip


def moe(architecture: str, **changes: Any) -> Any:
    """A mixture of experts with three or four of them."""
    torch.manual_seed(0)
    kind = getattr(transformers, MOE[architecture])
    words = {**SIZES, **HEADS, **_EXPERTS, **_OWN.get(architecture, {}), "pad_token_id": 0, **changes}
    words = {key: value for key, value in words.items() if key in kind.config_class().to_dict()}
    model = kind(kind.config_class(**words)).eval()
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.dtype.is_floating_point and tensor.numel() and not bool(tensor.std() > 0):
                tensor.copy_(torch.randn_like(tensor) / 8)  # norms, biases and sinks that are all ones or zeros
    return model


def expert_state(model: Any, folder: Path) -> dict[str, torch.Tensor]:
    """What `save_pretrained` writes: the names and layout of checkpoints."""
    from safetensors.torch import load_file

    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def converted(architecture: str, state: Mapping[str, torch.Tensor], config: Any) -> dict[str, np.ndarray]:
    """A checkpoint's tensors under GGUF names, as llama.cpp's converter changes them; written from its definition."""
    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    stacks: dict[str, list[torch.Tensor]] = {}
    found: dict[str, torch.Tensor] = {}
    for name in sorted(state, key=lambda one: [int(p) if p.isdigit() else -1 for p in one.split(".")]):
        tensor, parts = state[name].float(), name.split(".")
        if "experts" in parts and parts[parts.index("experts") + 1].isdigit():
            at = parts.index("experts") + 1
            stacks.setdefault(".".join([*parts[:at], *parts[at + 1 :]]), []).append(tensor)
            continue
        if architecture == "llama" and parts[-2] in ("q_proj", "k_proj"):
            heads = config.num_attention_heads if parts[-2] == "q_proj" else config.num_key_value_heads
            tensor = tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1).transpose(1, 2).reshape(tensor.shape)
        found |= _parts(architecture, name, tensor, config)
    found |= {name: torch.stack(tensors) for name, tensors in stacks.items()}
    placed = {}
    for name, tensor in found.items():
        own = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert own is not None, name
        placed[own] = tensor.contiguous().numpy()
    return placed


def _parts(architecture: str, name: str, tensor: torch.Tensor, config: Any) -> dict[str, torch.Tensor]:
    if name.endswith("shared_expert_gate.weight"):
        return {name: tensor[0]}
    if architecture == "deepseek2" and name.endswith("kv_b_proj.weight"):
        heads = tensor.view(config.num_key_value_heads, -1, tensor.shape[1])
        keys, values = heads.split([config.qk_nope_head_dim, config.v_head_dim], dim=1)
        return {name.replace("kv_b", "k_b"): keys.transpose(1, 2), name.replace("kv_b", "v_b"): values}
    if name.endswith("e_score_correction_bias"):
        return {name.replace("e_score_correction_bias", "e_score_correction.bias"): tensor}
    if architecture != "gpt-oss":
        return {name: tensor}
    if name.endswith("sinks"):
        return {f"{name}.weight": tensor}
    place, _, which = name.rpartition(".")
    if which in ("down_proj", "gate_up_proj"):
        tensor = tensor.transpose(-1, -2)  # [experts, out, in]
    if which.startswith("down_proj"):
        return {f"{place}.down_proj{'.bias' if which.endswith('bias') else '.weight'}": tensor}
    if which == "gate_up_proj":
        return {f"{place}.gate_proj.weight": tensor[:, 0::2], f"{place}.up_proj.weight": tensor[:, 1::2]}
    if which == "gate_up_proj_bias":
        return {f"{place}.gate_proj.bias": tensor[:, 0::2], f"{place}.up_proj.bias": tensor[:, 1::2]}
    return {name: tensor}


def write_gguf(
    path: Path,
    architecture: str,
    tensors: Mapping[str, np.ndarray],
    fields: Mapping[str, Any] | None = None,
    kind: gguf.GGMLQuantizationType | None = None,
    tokens: int = 40,
    **words: Any,
) -> Path:
    """A file, or with `split_max_tensors` several; matrices are quantised to `kind` where their rows divide."""
    writer = gguf.GGUFWriter(path, architecture, **words)
    for name, value in (fields or {}).items():
        add = {float: writer.add_float32, bool: writer.add_bool, str: writer.add_string}.get(type(value))
        (add or writer.add_uint32)(f"{architecture}.{name}", value)
    writer.add_token_list([f"token {number}" for number in range(tokens)])
    for name, values in tensors.items():
        block = gguf.GGML_QUANT_SIZES[kind][0] if kind is not None else 0
        rounded = kind is not None and values.ndim > 1 and "gate_inp" not in name and values.shape[-1] % block == 0
        given = gguf.quantize(values, kind) if rounded else values
        writer.add_tensor(name, given, raw_dtype=kind if rounded else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
