"""How the tensors of a GGUF file are called in Hugging Face checkpoints, and what llama.cpp's converter did to them.

In: the architecture, and the tensors of a file by name and shape. Out: where each Hugging Face tensor comes from, with
the change to undo. A new architecture is one entry in `ARCHITECTURES`. What is more than a name, a slice and a sum (the
experts of gpt-oss, the keys and values of DeepSeek) is in `joins.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from smelt.formats.gguf.joins import GGUFJoin, Shape, joins_among

__all__ = ["ARCHITECTURES", "OUTER", "Architecture", "GGUFPlace", "Origin", "map_names"]

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_LLAMA = _ATTENTION | {
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_AFTER = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_GEMMA_2 = _LLAMA | _AFTER | {"ffn_norm": "pre_feedforward_layernorm"}
_ROUTER = {"ffn_gate_inp": "mlp.gate"}
_EXPERTS = {
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
_MIXTRAL_EXPERTS = {
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
_SHARED = {f"ffn_{which}_shexp": which for which in ("gate", "up", "down")}
_QWEN_SHARED = {name: f"mlp.shared_expert.{which}_proj" for name, which in _SHARED.items()}
_DEEPSEEK_SHARED = {name: f"mlp.shared_experts.{which}_proj" for name, which in _SHARED.items()}
_DEEPSEEK_ATTENTION = {
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
}
_COMPUTED = re.compile(r"rope_freqs\.weight|rope_factors_(long|short)\.weight")
"""Tables that llama.cpp computes from the config's rope scaling; Hugging Face models have no such parameter."""
_STORED = re.compile(r"(?:blk\.(?P<block>\d+)\.)?(?P<module>\w+)(?:\.(?P<expert>\d+))?\.(?P<leaf>weight|bias)")


@dataclass(frozen=True, slots=True)
class Architecture:
    """The names of a block's modules, and of what has no module's name."""

    block: Mapping[str, str]
    experts: Mapping[str, str] = field(default_factory=dict)
    """Stacks of matrices, each a tensor of its own in Hugging Face checkpoints."""
    whole: Mapping[str, str] = field(default_factory=dict)
    """Names with their last part, of parameters that are no weight or bias of a module."""
    rotary_pairs: bool = False
    """Rows of q and k were interleaved for ggml's rotary embedding."""
    norms_plus_one: bool = False
    """Norm weights are stored as 1 + w."""


ARCHITECTURES = {
    # Mistral and Mixtral too, which llama.cpp calls llama
    "llama": Architecture(_LLAMA | {"ffn_gate_inp": "block_sparse_moe.gate"}, _MIXTRAL_EXPERTS, rotary_pairs=True),
    "qwen2": Architecture(_LLAMA),
    "qwen3": Architecture(_LLAMA | _HEAD_NORMS),
    "qwen2moe": Architecture(
        _LLAMA | _ROUTER | _QWEN_SHARED | {"ffn_gate_inp_shexp": "mlp.shared_expert_gate"}, _EXPERTS
    ),
    "qwen3moe": Architecture(_LLAMA | _HEAD_NORMS | _ROUTER, _EXPERTS),
    "olmoe": Architecture(_LLAMA | _HEAD_NORMS | _ROUTER, _EXPERTS),
    "deepseek2": Architecture(
        _LLAMA | _DEEPSEEK_ATTENTION | _ROUTER | _DEEPSEEK_SHARED,
        _EXPERTS,
        {"exp_probs_b.bias": "mlp.gate.e_score_correction_bias"},
    ),
    "gpt-oss": Architecture(
        _ATTENTION | {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"},
        whole={"attn_sinks.weight": "self_attn.sinks", "ffn_down_exps.bias": "mlp.experts.down_proj_bias"},
    ),
    "phi3": Architecture(_LLAMA | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "starcoder2": Architecture(_LLAMA | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "gemma": Architecture(_LLAMA, norms_plus_one=True),
    "gemma2": Architecture(_GEMMA_2, norms_plus_one=True),
    "gemma3": Architecture(_GEMMA_2 | _HEAD_NORMS, norms_plus_one=True),
    "command-r": Architecture(_LLAMA | _HEAD_NORMS),
    "cohere2": Architecture(_LLAMA),
    "stablelm": Architecture(_LLAMA),
    "olmo2": Architecture(_LLAMA | _HEAD_NORMS | _AFTER),
    "nemotron": Architecture(_LLAMA, norms_plus_one=True),
    "granite": Architecture(_LLAMA, rotary_pairs=True),
    "smollm3": Architecture(_LLAMA, rotary_pairs=True),
}
"""By llama.cpp's names."""


@dataclass(frozen=True, slots=True)
class GGUFPlace:
    """A Hugging Face tensor that is a stored one, or one matrix of a stack, and what is undone on the way."""

    name: str
    """In the GGUF file."""
    shape: Shape
    start: int = 0
    """The first of its elements."""
    heads: str | None = None
    """The metadata field with the number of heads whose row pairs are put back in order."""
    offset: float = 0.0
    """Added to every number."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


Origin: TypeAlias = GGUFPlace | GGUFJoin
"""Where a tensor's numbers come from."""


def map_names(architecture: str, stored: Mapping[str, Shape]) -> tuple[dict[str, Origin], str | None]:
    """Where tensors come from by the names to offer; if those are the GGUF names, also why.

    All or nothing: half a model under Hugging Face names would look like one with missing tensors.
    """
    plain: dict[str, Origin] = {name: GGUFPlace(name, shape) for name, shape in stored.items()}
    known = ARCHITECTURES.get(architecture)
    if known is None:
        return plain, f"the architecture {architecture!r} has no table of Hugging Face names; GGUF names are offered"
    origins: dict[str, Origin] = {**joins_among(architecture, stored)}
    joined = {name for join in origins.values() for name in join.names}
    for name, shape in stored.items():
        if _COMPUTED.fullmatch(name) or name in joined:
            continue
        found = dict(_places(known, name, shape))
        if not found:
            return plain, f"{name!r} has no Hugging Face name in the table of {architecture!r}; GGUF names are offered"
        origins |= found
    return origins, None


def _places(known: Architecture, name: str, shape: Shape) -> Iterator[tuple[str, GGUFPlace]]:
    """The Hugging Face tensors in a stored one: itself under another name, or each of the experts in it."""
    part = _STORED.fullmatch(name)
    if part is None:
        return
    start = 0
    prefix = f"model.layers.{part['block']}." if part["block"] else ""
    module, leaf = part["module"], part["leaf"]
    own = known.whole.get(f"{module}.{leaf}") if part["block"] else None
    if own is not None:
        yield f"{prefix}{own}", GGUFPlace(name, shape)
    elif part["expert"] is not None:  # files of the first months of Mixtral
        if f"{module}_exps" in known.experts:
            yield f"{prefix}{known.experts[f'{module}_exps'].format(part['expert'])}.{leaf}", GGUFPlace(name, shape)
    elif part["block"] and (modules := _stacked(known, module, shape)):
        matrix = (shape[1] // len(modules), shape[2])
        for number, own in ((number, own) for number in range(shape[0]) for own in modules):
            yield f"{prefix}{own.format(number)}.{leaf}", GGUFPlace(name, matrix, start)
            start += math.prod(matrix)
    elif module in (table := known.block if part["block"] else OUTER):
        heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}.get(module)
        lifted = known.norms_plus_one and module.endswith("norm") and leaf == "weight"
        if module == "ffn_gate_inp_shexp" and len(shape) == 1:  # one row, which llama.cpp stores as a vector
            shape = (1, *shape)
        rows = heads if known.rotary_pairs else None
        yield f"{prefix}{table[module]}.{leaf}", GGUFPlace(name, shape, 0, rows, -1.0 if lifted else 0.0)


def _stacked(known: Architecture, module: str, shape: Shape) -> list[str]:
    """The modules of one expert, one above the other in each matrix of a stack; none where it is no such stack."""
    parts = ("ffn_gate_exps", "ffn_up_exps") if module == "ffn_gate_up_exps" else (module,)
    found = [known.experts[part] for part in parts if part in known.experts]
    return found if len(shape) == 3 and len(found) == len(parts) and shape[1] % len(parts) == 0 else []
