"""A sentence encoder of the BERT kind in torch alone: texts in, the mean of their tokens as unit vectors out.

A library for such models takes seconds to import, longer than a selection may take, and in its batches the last digits
of a vector depend on its neighbours. Here a text is padded to a multiple of 16 tokens and computed in a block of eight
texts of that length, on one core; a block that is not full is filled up. So a text goes through the same operations
whatever else is asked for, and a busy machine costs no more than its share.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import MissingExtra
from smelt.files.identity import hash_file
from smelt.files.reading import read_json_table

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["BertEmbedder"]

_BLOCK, _STEP = 8, 16
_FILES = ("config.json", "tokenizer.json", "model.safetensors")
_WAY = "bert blocks 1"
"""Part of the identity; raised when the last digits of vectors change."""


class BertEmbedder:
    """all-MiniLM-L6-v2 and its like, from their folder; it is read when the first text comes."""

    def __init__(self, folder: Path, name: str):
        self.name, self._folder = name, folder
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        """All that vectors depend on beside the text."""
        return " ".join([self.name, _WAY, *(hash_file(self._folder / file) for file in _FILES)])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        from smelt.system.threads import map_ahead, single_core_pool

        with self._lock:
            network = self._network
        rows = np.zeros((len(texts), network.width), dtype=np.float32)
        tokens = network.tokens(texts)
        by_length: dict[int, list[int]] = {}
        for number, ids in enumerate(tokens):
            by_length.setdefault(-(-len(ids) // _STEP) * _STEP, []).append(number)
        blocks = [
            (length, numbers[start : start + _BLOCK])
            for length, numbers in sorted(by_length.items())
            for start in range(0, len(numbers), _BLOCK)
        ]

        def run(block: tuple[int, list[int]]) -> NDArray[np.float32]:
            length, numbers = block
            return network.block([tokens[number] for number in numbers], length)

        threads = max(1, min(torch.get_num_threads(), len(blocks)))
        with single_core_pool(threads, "smelt-embed") as pool:
            for (_, numbers), found in zip(blocks, map_ahead(pool, run, blocks, 2 * threads), strict=True):
                rows[numbers] = found
        return rows

    @cached_property
    def _network(self) -> _Network:
        return _Network(self._folder)


class _Network:
    """The weights, the tokenizer, and what is computed with them."""

    def __init__(self, folder: Path):
        import torch

        from smelt.formats.safetensors import FileSource
        from smelt.formats.source import read_whole

        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtra("sentences need the package tokenizers: pip install 'smelt[hub]'") from None
        config = read_json_table(folder / "config.json")
        longest = read_json_table(folder / "sentence_bert_config.json")["max_seq_length"]
        self.layers, self.heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.width, self._epsilon = int(config["hidden_size"]), float(config["layer_norm_eps"])
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(int(longest))
        self._weights: dict[str, Tensor] = {}
        source = FileSource(str(folder), [folder / "model.safetensors"])
        try:
            for name in source.tensors:
                if name.endswith((".weight", ".bias")):
                    self._weights[name] = read_whole(source, name, torch.float32)
        finally:
            source.close()

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of each text's tokens, with those that begin and end it."""
        return [list(self._tokenizer.encode(text).ids) for text in texts]

    def block(self, tokens: Sequence[Sequence[int]], length: int) -> NDArray[np.float32]:
        """Unit rows for at most eight texts, each padded to `length`."""
        import torch

        ids = torch.zeros(_BLOCK, length, dtype=torch.long)
        real = torch.zeros(_BLOCK, length, dtype=torch.bool)
        real[len(tokens) :, 0] = True  # attention over nothing would be NaN
        for row, one in enumerate(tokens):
            ids[row, : len(one)] = torch.tensor(one)
            real[row, : len(one)] = True
        with torch.inference_mode():
            counted = real[:, :, None].float()
            mean = (self._states(ids, real) * counted).sum(dim=1) / counted.sum(dim=1)
            unit = torch.nn.functional.normalize(mean, dim=-1)
        found: NDArray[np.float32] = unit[: len(tokens)].numpy()
        return found

    def _states(self, ids: Tensor, real: Tensor) -> Tensor:
        """The last layer's states [texts, tokens, width]."""
        from torch.nn import functional

        texts, length = ids.shape
        words, places, kinds = (
            self._weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        )
        states = self._normed("embeddings.LayerNorm", words[ids] + places[:length] + kinds[0])
        for number in range(self.layers):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                self._linear(f"{layer}.attention.self.{part}", states)
                .view(texts, length, self.heads, -1)
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
            seen = self._linear(f"{layer}.attention.output.dense", seen.transpose(1, 2).reshape(texts, length, -1))
            states = self._normed(f"{layer}.attention.output.LayerNorm", states + seen)
            wide = functional.gelu(self._linear(f"{layer}.intermediate.dense", states))
            states = self._normed(f"{layer}.output.LayerNorm", states + self._linear(f"{layer}.output.dense", wide))
        return states

    def _linear(self, name: str, states: Tensor) -> Tensor:
        from torch.nn import functional

        return functional.linear(states, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, name: str, states: Tensor) -> Tensor:
        from torch.nn import functional

        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.layer_norm(states, (self.width,), weight, bias, self._epsilon)
