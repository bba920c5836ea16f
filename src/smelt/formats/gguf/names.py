"""How the tensors of a GGUF file are called in Hugging Face checkpoints, and what llama.cpp's converter did to them.

In: the architecture and the tensor names of a file. Out: the same tensors under Hugging Face names, each with the
change to undo; or the other way round, for a file that is to be written. A new architecture is one entry in
`_ARCHITECTURES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["GGUFPlace", "map_names", "places_for"]

_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
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
_GEMMA = _LLAMA | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_COMPUTED = re.compile(r"rope_freqs\.weight|rope_factors_(long|short)\.weight")
"""Tables that llama.cpp computes from the config's rope scaling; Hugging Face models have no such parameter."""


@dataclass(frozen=True, slots=True)
class _Architecture:
    block: Mapping[str, str]
    rotary_pairs: bool = False
    """Rows of q and k were interleaved for ggml's rotary embedding."""
    norms_plus_one: bool = False
    """Norm weights are stored as 1 + w."""


_ARCHITECTURES = {
    "llama": _Architecture(_LLAMA, rotary_pairs=True),  # Mistral too, which llama.cpp calls llama
    "qwen2": _Architecture(_LLAMA),
    "qwen3": _Architecture(_LLAMA | _HEAD_NORMS),
    "phi3": _Architecture(_LLAMA | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "starcoder2": _Architecture(_LLAMA | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "gemma2": _Architecture(_GEMMA, norms_plus_one=True),
    "gemma3": _Architecture(_GEMMA | _HEAD_NORMS, norms_plus_one=True),
}


@dataclass(frozen=True, slots=True)
class GGUFPlace:
    """Where a Hugging Face tensor comes from, and what is undone on the way."""

    name: str
    """In the GGUF file."""
    heads: str | None = None
    """The metadata field with the number of heads whose row pairs are put back in order."""
    offset: float = 0.0
    """Added to every number."""


def map_names(architecture: str, names: Iterable[str]) -> tuple[dict[str, GGUFPlace], str | None]:
    """Places by the names to offer; if those are the GGUF names, also why.

    All or nothing: half a model under Hugging Face names would look like one with missing tensors.
    """
    names = list(names)
    plain = {name: GGUFPlace(name) for name in names}
    known = _ARCHITECTURES.get(architecture)
    if known is None:
        return plain, f"the architecture {architecture!r} has no table of Hugging Face names; GGUF names are offered"
    places: dict[str, GGUFPlace] = {}
    for name in names:
        if _COMPUTED.fullmatch(name):
            continue
        part = re.fullmatch(r"(?:blk\.(?P<block>\d+)\.)?(?P<module>\w+)\.(?P<leaf>weight|bias)", name)
        table = {} if part is None else known.block if part["block"] else _OUTER
        if part is None or part["module"] not in table:
            return plain, f"{name!r} has no Hugging Face name in the table of {architecture!r}; GGUF names are offered"
        prefix = f"model.layers.{part['block']}." if part["block"] else ""
        own = f"{prefix}{table[part['module']]}.{part['leaf']}"
        places[own] = _place(known, name, part["module"], part["leaf"])
    return places, None


def places_for(architecture: str, names: Iterable[str]) -> tuple[dict[str, GGUFPlace], list[str]]:
    """Where a model's tensors belong in a GGUF file of this architecture, and those that have no place there."""
    known = _ARCHITECTURES[architecture]
    outer, block = ({own: name for name, own in table.items()} for table in (_OUTER, known.block))
    places: dict[str, GGUFPlace] = {}
    homeless = []
    for name in names:
        part = re.fullmatch(r"(?:model\.layers\.(?P<block>\d+)\.)?(?P<module>.+)\.(?P<leaf>weight|bias)", name)
        table = {} if part is None else block if part["block"] else outer
        if part is None or part["module"] not in table:
            homeless.append(name)
            continue
        module = table[part["module"]]
        prefix = f"blk.{part['block']}." if part["block"] else ""
        places[name] = _place(known, f"{prefix}{module}.{part['leaf']}", module, part["leaf"])
    return places, homeless


def _place(known: _Architecture, name: str, module: str, leaf: str) -> GGUFPlace:
    heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}.get(module)
    lifted = known.norms_plus_one and module.endswith("norm") and leaf == "weight"
    return GGUFPlace(name, heads if known.rotary_pairs else None, -1.0 if lifted else 0.0)
