"""Models of published shapes as sparse files: headers are real, data are holes, which take no room and read as zeros.

In: a size by name. Out: folders as the hub has them: shards of at most 5 GB, an index, a config.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from smelt.formats.safetensors import encode_header
from smelt.formats.source import TensorInfo

SHARD = 5 * 10**9


@dataclass(frozen=True)
class Llama:
    """The sizes of a model of the Llama 3.1 family, as its config has them."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        kv = self.hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for number in range(self.layers):
            name = f"model.layers.{number}"
            yield f"{name}.self_attn.q_proj.weight", (self.hidden, self.hidden)
            yield f"{name}.self_attn.k_proj.weight", (kv, self.hidden)
            yield f"{name}.self_attn.v_proj.weight", (kv, self.hidden)
            yield f"{name}.self_attn.o_proj.weight", (self.hidden, self.hidden)
            yield f"{name}.mlp.gate_proj.weight", (self.ffn, self.hidden)
            yield f"{name}.mlp.up_proj.weight", (self.ffn, self.hidden)
            yield f"{name}.mlp.down_proj.weight", (self.hidden, self.ffn)
            yield f"{name}.input_layernorm.weight", (self.hidden,)
            yield f"{name}.post_attention_layernorm.weight", (self.hidden,)
        yield "model.norm.weight", (self.hidden,)
        yield "lm_head.weight", (self.vocab, self.hidden)

    @property
    def parameters(self) -> int:
        return sum(prod(shape) for _, shape in self.shapes())

    def config(self) -> dict[str, object]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "vocab_size": self.vocab,
            "tie_word_embeddings": False,
        }


LLAMA = {
    "405b": Llama(126, 16384, 53248, 128, 8, 128256),
    "70b": Llama(80, 8192, 28672, 64, 8, 128256),
    "tiny": Llama(3, 256, 512, 8, 2, 1024),
}


def write_sparse(folder: Path, size: Llama) -> None:
    """One model, in shards of the hub's usual size."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(size.config()))
    tensors = {name: TensorInfo("BF16", shape) for name, shape in size.shapes()}
    shards: list[dict[str, TensorInfo]] = [{}]
    room = SHARD
    for name, info in tensors.items():
        if shards[-1] and info.nbytes > room:
            shards.append({})
            room = SHARD
        shards[-1][name] = info
        room -= info.nbytes
    where = {}
    for number, some in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        where |= dict.fromkeys(some, name)
        head, _ = encode_header(some, {"format": "pt"})
        with open(folder / name, "wb") as file:
            file.write(head)
            os.ftruncate(file.fileno(), len(head) + sum(info.nbytes for info in some.values()))
    index = {"metadata": {"total_size": 2 * size.parameters}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
