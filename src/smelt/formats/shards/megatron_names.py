"""Megatron-core's tensors under the names of Hugging Face's models, where a config.json tells the sizes.

    Megatron-core                                    Llama, Mistral, Qwen2, Qwen3
    embedding.word_embeddings.weight                 model.embed_tokens.weight, without the rows of padding
    decoder.layers.N.self_attention.linear_qkv       self_attn.q_proj, k_proj, v_proj: it holds [q ... q, k, v] of every
                                                     group of queries, group after group
    decoder.layers.N.mlp.linear_fc1                  mlp.gate_proj, then up_proj
    decoder.layers (homogeneous)                     all layers in one stack [layers, ...]

GPT-NeoX keeps Megatron's order of queries, keys and values, so its tensors are only renamed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.formats.shards.runs import Joined, Run
from smelt.formats.source import TensorInfo

__all__ = ["hf_tensors"]

_LAYER = re.compile(r"^decoder\.layers\.(?:(\d+)\.)?(.+)$")
_LLAMA = ("llama", "mistral", "qwen2", "qwen3")
_NEOX = ("gpt_neox",)
_LLAMA_TOP = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
}
_LLAMA_LAYER = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "input_layernorm.weight": "input_layernorm.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
    "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
    "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
}
_NEOX_TOP = {
    "embedding.word_embeddings.weight": "gpt_neox.embed_in.weight",
    "decoder.final_layernorm.weight": "gpt_neox.final_layer_norm.weight",
    "decoder.final_layernorm.bias": "gpt_neox.final_layer_norm.bias",
    "output_layer.weight": "embed_out.weight",
}
_NEOX_LAYER = {
    "self_attention.linear_qkv.layer_norm_": "input_layernorm.",
    "input_layernorm.": "input_layernorm.",
    "self_attention.linear_qkv.": "attention.query_key_value.",
    "self_attention.linear_proj.": "attention.dense.",
    "mlp.linear_fc1.layer_norm_": "post_attention_layernorm.",
    "pre_mlp_layernorm.": "post_attention_layernorm.",
    "mlp.linear_fc1.": "mlp.dense_h_to_4h.",
    "mlp.linear_fc2.": "mlp.dense_4h_to_h.",
}
_ROWS_OF_WORDS = ("embedding.word_embeddings.weight", "output_layer.weight")


class _Unknown(Exception):
    """Why the names stay Megatron's."""


def hf_tensors(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None
) -> tuple[dict[str, Joined] | None, str]:
    """Every tensor as runs of Megatron's, or None; and a note that says which names a merge sees, and why."""
    family = str((config or {}).get("model_type", ""))
    if config is None or family not in (*_LLAMA, *_NEOX):
        why = f"no names are known for {family!r}" if family else "no config.json says which model it is"
        return None, f"under Megatron's names: {why}"
    try:
        found = dict(_Mapping(config, family).all(tensors))
    except _Unknown as error:
        return None, f"under Megatron's names: {error}"
    return found, f"under the names of {family}, as config.json says"


@dataclass(frozen=True)
class _Part:
    """One tensor of one layer, wherever it is stored."""

    stored: str
    start: int
    shape: tuple[int, ...]

    @property
    def row(self) -> int:
        return math.prod(self.shape[1:])

    def rows(self, *spans: tuple[int, int]) -> Joined:
        """Some of its rows: (first, how many)."""
        count = sum(many for _, many in spans)
        runs = tuple(Run(self.stored, self.start + first * self.row, many * self.row) for first, many in spans)
        return Joined((count, *self.shape[1:]), runs)

    def whole(self) -> Joined:
        return Joined(self.shape, (Run(self.stored, self.start, math.prod(self.shape)),))


class _Mapping:
    """The names of one family, with the sizes of one config."""

    def __init__(self, config: Mapping[str, Any], family: str):
        self._neox = family in _NEOX
        self._layers = self._size(config, "num_hidden_layers")
        self._heads = self._size(config, "num_attention_heads")
        self._groups = self._size(config, "num_key_value_heads", self._heads)
        hidden = self._size(config, "hidden_size")
        self._width = self._size(config, "head_dim", hidden // self._heads)
        self._words = self._size(config, "vocab_size")
        if self._heads % self._groups:
            raise _Unknown(f"config.json has {self._heads} heads in {self._groups} groups")

    def all(self, tensors: Mapping[str, TensorInfo]) -> Iterator[tuple[str, Joined]]:
        top = _NEOX_TOP if self._neox else _LLAMA_TOP
        for key, info in tensors.items():
            layer = _LAYER.match(key)
            if layer is None:
                if key not in top:
                    raise _Unknown(f"{key!r} has no counterpart")
                part = _Part(key, 0, info.shape)
                yield top[key], self._vocabulary(part) if key in _ROWS_OF_WORDS else part.whole()
                continue
            for number, part in self._of_layers(key, info, layer[1]):
                for name, joined in self._in_layer(layer[2], part):
                    prefix = "gpt_neox.layers" if self._neox else "model.layers"
                    yield f"{prefix}.{number}.{name}", joined

    def _of_layers(self, key: str, info: TensorInfo, number: str | None) -> Iterator[tuple[int, _Part]]:
        if number is not None:
            yield int(number), _Part(key, 0, info.shape)
            return
        if not info.shape or info.shape[0] != self._layers:
            raise _Unknown(f"{key!r} has shape {info.shape}, and config.json says {self._layers} layers")
        size = math.prod(info.shape[1:])
        for layer in range(self._layers):
            yield layer, _Part(key, layer * size, info.shape[1:])

    def _in_layer(self, name: str, part: _Part) -> Iterator[tuple[str, Joined]]:
        if self._neox:
            own = next((f"{to}{name.removeprefix(of)}" for of, to in _NEOX_LAYER.items() if name.startswith(of)), None)
            if own is None:
                raise _Unknown(f"{name!r} of a layer has no counterpart")
            yield own, part.whole()
        elif name in _LLAMA_LAYER:
            yield _LLAMA_LAYER[name], part.whole()
        elif name in ("self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias"):
            yield from self._attention(part, name.rpartition(".")[2])
        elif name == "mlp.linear_fc1.weight" and part.shape[0] % 2 == 0:
            half = part.shape[0] // 2
            yield "mlp.gate_proj.weight", part.rows((0, half))
            yield "mlp.up_proj.weight", part.rows((half, half))
        else:
            raise _Unknown(f"{name!r} of a layer has no counterpart")

    def _attention(self, part: _Part, end: str) -> Iterator[tuple[str, Joined]]:
        queries = self._heads // self._groups * self._width
        step = queries + 2 * self._width
        if part.shape[0] != self._groups * step:
            raise _Unknown(
                f"{part.stored!r} has {part.shape[0]} rows, and {self._heads} heads of {self._width} in {self._groups} "
                f"groups need {self._groups * step}"
            )
        firsts = range(0, part.shape[0], step)
        yield f"self_attn.q_proj.{end}", part.rows(*((first, queries) for first in firsts))
        yield f"self_attn.k_proj.{end}", part.rows(*((first + queries, self._width) for first in firsts))
        yield f"self_attn.v_proj.{end}", part.rows(*((first + step - self._width, self._width) for first in firsts))

    def _vocabulary(self, part: _Part) -> Joined:
        """Without the rows that pad the vocabulary to a multiple of something."""
        if len(part.shape) != 2 or part.shape[0] < self._words:
            raise _Unknown(f"{part.stored!r} has shape {part.shape}, and config.json says {self._words} words")
        return part.rows((0, self._words))

    def _size(self, config: Mapping[str, Any], key: str, otherwise: int | None = None) -> int:
        found = config.get(key)
        found = otherwise if found is None else found
        if type(found) is not int or found < 1:
            raise _Unknown(f"config.json does not say {key}")
        return found
