"""How a model's tensors are arranged, read from their names alone: blocks, depth, embeddings, vocabulary, matrices.

No list of architectures: a name's first number between dots is its block (`model.layers.7.mlp...`), and the
few words below tell embeddings and heads. So a model that nobody has heard of merges whole. A family that
needs more says so in a file of its own (docs/write-a-family.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from smelt.files.reading import natural

__all__ = ["Layout"]

_BLOCK = re.compile(r"^(?:(?P<stack>.*?)\.)?(?P<index>\d+)\.(?P<rest>.+)$")
_EMBEDDING = re.compile(
    r"(^|\.|_)(embed|embeds|embedding|embeddings|embed_tokens|tok_embeddings|wte|wpe|shared|word_embeddings"
    r"|position_embedding|token_embedding|class_embedding|patch_embedding|positional_embedding|relative_attention_bias"
    r"|cls_token|pos_embed|patch_embed|pre_layrnorm|embed_in|conv1|stem|projection_in)(\.|$)"
)
_VOCABULARY = re.compile(
    r"(^|\.)(embed_tokens|tok_embeddings|wte|word_embeddings|token_embedding|shared|embed_in|lm_head|embed_out"
    r"|predictions\.decoder|predictions)\.(weight|bias)$|^output\.weight$"
)
_NOT_LINEAR = re.compile(
    r"(embed|wte|wpe|(^|\.)shared\.|lm_head|embed_out|relative_attention_bias|(^|\.)output\.weight$)"
)


@dataclass(frozen=True)
class Layout:
    """The arrangement of one model's tensors."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> Layout:
        return cls(tuple(sorted(names, key=natural)))

    @cached_property
    def stacks(self) -> Mapping[str, int]:
        """Every stack of blocks by its prefix, with its number of blocks: {model.layers: 22}."""
        found: dict[str, set[int]] = {}
        for name in self.names:
            if (block := self.block(name)) is not None:
                found.setdefault(block[0], set()).add(block[1])
        return {stack: max(indices) + 1 for stack, indices in found.items()}

    @cached_property
    def main_stack(self) -> str | None:
        """The stack that layer slices mean: the one with the most tensors."""
        counts: dict[str, int] = {}
        for name in self.names:
            if (block := self.block(name)) is not None:
                counts[block[0]] = counts.get(block[0], 0) + 1
        return max(counts, key=lambda stack: (counts[stack], stack)) if counts else None

    @staticmethod
    def block(name: str) -> tuple[str, int, str] | None:
        """(stack, index, rest) of a tensor inside a block, None for the others."""
        match = _BLOCK.match(name)
        return (match["stack"] or "", int(match["index"]), match["rest"]) if match else None

    def depth(self, name: str) -> float:
        """0 for the first block and what lies before it, 1 for the last block and what lies after it."""
        block = self.block(name)
        if block is None:
            return 0.0 if self.before_blocks(name) else 1.0
        count = self.stacks.get(block[0], 1)
        return block[1] / (count - 1) if count > 1 else 1.0

    @staticmethod
    def before_blocks(name: str) -> bool:
        """Whether a tensor outside the blocks feeds them (embeddings) rather than follows them (norm, head)."""
        return _EMBEDDING.search(name) is not None

    @staticmethod
    def holds_vocabulary(name: str) -> bool:
        """Whether the first axis is the vocabulary, judged by the name."""
        return _VOCABULARY.search(name) is not None

    @staticmethod
    def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
        """Whether spectral methods treat it as a linear layer: two axes, and no table of embeddings."""
        return len(shape) == 2 and min(shape) > 1 and _NOT_LINEAR.search(name) is None
