"""How a model's tensors are arranged: blocks, embeddings and vocabulary by their names, linear layers by their shapes.

`Layout` needs names alone. No list of architectures: a name's first number between dots is its block
(`model.layers.7.mlp...`), and the few words below tell embeddings and heads. So a model that nobody has heard of merges
whole. A family that needs more says so in a file of its own (docs/how-to/write-a-family.md).

`Orientation` tells how linear layers lie in tensors: as [out, in] or as [in, out], several in one tensor or not. In:
the shapes of a model's tensors, and its config where it has one. Out: for each tensor the `Matrices` in it. Stages that
know rows or matrices see each of them as [out, in], whatever the file does. Shapes prove most of it. A bias is as long
as its layer has outputs. Experts begin and end at the model's width, which their router and the norms around them have.
What no shape proves follows the config's word (`stored_layouts.py`), then layers of the same name, then layers of the
same module. A lone matrix without any sign is [out, in], as nearly all are; of a stack of experts nothing is taken for
granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.files.reading import natural
from smelt.formats.architecture.stored_layouts import (
    DBRX,
    EXPERTS,
    EXPERTS_TRANSPOSED,
    GIVES_HIDDEN,
    NAMED_TRANSPOSED,
    ROUTERS,
    TRANSPOSED,
)
from smelt.recipe.model_parts import LANGUAGE_PREFIXES

if TYPE_CHECKING:
    from smelt.formats.source import Source

__all__ = ["Layout", "Matrices", "Orientation"]

Shape: TypeAlias = tuple[int, ...]

_BLOCK = re.compile(r"^(?:(?P<stack>.*?)\.)?(?P<index>\d+)\.(?P<rest>.+)$")
_EMBEDDING = re.compile(
    r"(^|\.|_)(embed|embeds|embedding|embeddings|embed_tokens|tok_embeddings|wte|wpe|shared|word_embeddings"
    r"|position_embedding|token_embedding|class_embedding|patch_embedding|positional_embedding|relative_attention_bias"
    r"|cls_token|pos_embed|patch_embed|pre_layrnorm|embed_in|conv1|stem|projection_in)(\.|$)"
)
_VOCABULARY = re.compile(
    r"(^|\.)(embed_tokens|tok_embeddings|wte|word_embeddings|token_embedding|shared|embed_in|lm_head|embed_out"
    r"|predictions\.decoder|predictions|backbone\.embeddings)\.(weight|bias)$|^output\.weight$"
)
_NOT_LINEAR = re.compile(
    r"(embed|wte|wpe|(^|\.)shared\.|lm_head|embed_out|relative_attention_bias|(^|\.)output\.weight$"
    r"|(^|\.)A_log$|resampler\.latents$)"
)
"""Tables, heads, and parameters of two axes that no vector is multiplied with: the decay rates of a state space, what a
resampler asks with."""


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
        """The stack that layer slices mean: the one with the most tensors; no tower beside a language model."""
        counts: dict[str, int] = {}
        reads = any(name.startswith(LANGUAGE_PREFIXES) for name in self.names)
        for name in self.names:
            if (block := self.block(name)) is not None and (not reads or name.startswith(LANGUAGE_PREFIXES)):
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


@dataclass(frozen=True, slots=True)
class Matrices:
    """`count` linear layers that lie one after the other in a tensor, each of this shape once it is [out, in]."""

    count: int
    shape: Shape
    transposed: bool = False
    """Stored as [in, out]."""
    doubt: str = ""
    """Why it is not known how they lie, where it is not."""

    def as_stored(self, shape: Shape) -> bool:
        """Whether a tensor of this shape is what stages may see as it is."""
        return self.shape == shape and not self.transposed and not self.doubt


class Orientation:
    """The orientation of one model's tensors. Asked for one at a time; what others prove is worked out once."""

    def __init__(self, shapes: Mapping[str, Shape], config: Mapping[str, Any] | None = None):
        self._shapes, self._config = shapes, config or {}

    @classmethod
    def in_source(cls, source: Source, instead: Source | None = None) -> Orientation:
        """Of an open model; the config is that of `instead` where it has none of its own."""
        from smelt.formats.folder_files import read_config

        config = read_config(source.folder) or (read_config(instead.folder) if instead else None)
        return cls({name: info.shape for name, info in source.tensors.items()}, config)

    def of(self, name: str) -> Matrices:
        """The linear layers in a tensor; a tensor that holds none is itself, once."""
        shape = self._shapes[name]
        if len(shape) < 2 or len(shape) > 3:
            return Matrices(1, shape)
        if (dbrx := DBRX.match(name)) is not None and len(shape) == 2:
            return self._dbrx(dbrx["ffn"], dbrx["layer"], shape)
        if _is_expert(name):
            if len(shape) == 3:
                return self._experts(name, shape)
            return Matrices(shape[0], shape[1:]) if self._is_expert_bias(name, shape) else Matrices(1, shape)
        if len(shape) == 3 or not Layout.is_matrix(name, shape):
            return Matrices(1, shape)
        return Matrices(1, shape[::-1], True) if self._transposed(name, shape) else Matrices(1, shape)

    @property
    def informed(self) -> bool:
        """Whether shapes or the config say anything of how lone layers are stored."""
        return bool(self._votes) or not self._types.isdisjoint(TRANSPOSED)

    @cached_property
    def _types(self) -> frozenset[str]:
        """The model types that the config names, those of its parts among them."""
        return frozenset(str(section["model_type"]) for section in _sections(self._config) if "model_type" in section)

    def _transposed(self, name: str, shape: Shape) -> bool:
        if NAMED_TRANSPOSED.search(name):
            return True
        proved = self._by_bias(name, shape)
        if proved is None and any(TRANSPOSED[kind].search(name) for kind in self._types & TRANSPOSED.keys()):
            return True
        if proved is None:
            proved = _agreed(self._votes, _leaf(name))
        if proved is None and _bias_of(name) in self._shapes:
            proved = _agreed(self._votes, _module(name))
        return bool(proved)

    def _by_bias(self, name: str, sides: Shape) -> bool | None:
        """What the bias of a layer says, where its two sides (the last of `sides`) differ."""
        bias = self._shapes.get(_bias_of(name), ())
        first, second = sides[-2:]
        if first == second or len(bias) != len(sides) - 1 or bias[-1] not in (first, second):
            return None
        return bias[-1] == second

    @cached_property
    def _votes(self) -> dict[str, set[bool]]:
        """What biases prove, by the layers' own names and by the modules that they lie in."""
        return _gathered(
            (name, self._by_bias(name, shape))
            for name, shape in self._shapes.items()
            if len(shape) == 2 and not _is_expert(name) and Layout.is_matrix(name, shape)
        )

    def _is_expert_bias(self, name: str, shape: Shape) -> bool:
        """Whether it holds the biases of a stack of experts, one row each."""
        owners = (name.removesuffix("_bias"), name.removesuffix(".bias") + ".weight")
        return any(len(own := self._shapes.get(owner, ())) == 3 and own[0] == shape[0] for owner in owners)

    def _experts(self, name: str, shape: Shape) -> Matrices:
        count, *sides = shape
        turned = self._expert_proof(name, shape)
        for votes_of in (_module, _leaf):
            turned = _agreed(self._expert_votes, votes_of(name)) if turned is None else turned
        words = {EXPERTS_TRANSPOSED[kind] for kind in self._types & EXPERTS_TRANSPOSED.keys()}
        if turned is None and len(words) == 1:
            turned = words.pop()
        if turned is None and 1 in sides:  # a vector either way, but for its axes
            turned = False
        if turned is None:
            why = f"its experts are {sides[0]} by {sides[1]}, and neither a bias, a router, a norm nor the config tells"
            return Matrices(count, (sides[0], sides[1]), doubt=f"{why} which side is the output")
        return Matrices(count, (sides[1], sides[0]) if turned else (sides[0], sides[1]), turned)

    def _expert_proof(self, name: str, shape: Shape) -> bool | None:
        by_bias = self._by_bias(name, shape)
        first, second = shape[1:]
        widths = self._widths(name, shape[0])
        if by_bias is not None or (first in widths) == (second in widths):
            return by_bias
        gives = GIVES_HIDDEN.search(name) is not None
        return (second in widths) == gives

    @cached_property
    def _expert_votes(self) -> dict[str, set[bool]]:
        return _gathered(
            (name, self._expert_proof(name, shape))
            for name, shape in self._shapes.items()
            if len(shape) == 3 and _is_expert(name)
        )

    def _widths(self, name: str, count: int) -> set[int]:
        """The model's width: what the router of these experts has beside their number, the norms of the block, the
        config; the first of them that says something.
        """
        outer = name
        while "." in outer:
            outer = outer.rpartition(".")[0]
            routers = [self._shapes[f"{outer}.{word}"] for word in ROUTERS if f"{outer}.{word}" in self._shapes]
            found = {side for shape in routers if len(shape) == 2 and count in shape for side in _other(shape, count)}
            if found:
                return found
        block = Layout.block(name)
        if block is not None and len(self._norms.get(block[:2], ())) == 1:
            return self._norms[block[:2]]
        keys = ("hidden_size", "n_embd", "d_model")
        return {
            value for section in _sections(self._config) for key in keys if isinstance(value := section.get(key), int)
        }

    @cached_property
    def _norms(self) -> dict[tuple[str, int], set[int]]:
        """The lengths of the norms of every block; those of heads are not the model's."""
        found: dict[tuple[str, int], set[int]] = {}
        for name, shape in self._shapes.items():
            heads = ("q_norm", "k_norm", "query_norm", "key_norm")
            if len(shape) != 1 or "norm" not in name or any(word in name for word in heads):
                continue
            if (block := Layout.block(name)) is not None:
                found.setdefault(block[:2], set()).add(shape[0])
        return found

    def _dbrx(self, ffn: str, layer: str, shape: Shape) -> Matrices:
        rows, columns = shape
        count = self._shapes.get(f"{ffn}.router.layer.weight", (0,))[0]
        if count < 1 or rows % count:
            return Matrices(1, shape, doubt=f"it holds several experts, and no {ffn}.router.layer.weight says how many")
        inner = rows // count
        return Matrices(count, (columns, inner), True) if layer == "w2" else Matrices(count, (inner, columns))


def _is_expert(name: str) -> bool:
    """Whether a name is one of all experts together."""
    found = EXPERTS.search(name)
    return found is not None and not any(part.isdigit() for part in name[found.start() :].split("."))


def _bias_of(name: str) -> str:
    return name.removesuffix("weight") + "bias" if name.endswith(".weight") else f"{name}_bias"


def _leaf(name: str) -> str:
    """The layer's own name: c_proj of h.3.attn.c_proj.weight."""
    return name.removesuffix(".weight").rpartition(".")[2]


def _module(name: str) -> str:
    """What the layer lies in, with a dot: h.3.attn. of h.3.attn.c_proj.weight."""
    return name.removesuffix(".weight").rpartition(".")[0] + "."


def _gathered(proofs: Iterator[tuple[str, bool | None]]) -> dict[str, set[bool]]:
    votes: dict[str, set[bool]] = {}
    for name, proved in proofs:
        if proved is not None:
            for place in (_leaf(name), _module(name)):
                votes.setdefault(place, set()).add(proved)
    return votes


def _agreed(votes: Mapping[str, set[bool]], place: str) -> bool | None:
    """What all that know say."""
    found = votes.get(place, set())
    return next(iter(found)) if len(found) == 1 else None


def _other(shape: Shape, count: int) -> Iterator[int]:
    """The side of a router that is not the number of experts."""
    yield shape[1] if shape[0] == count else shape[0]


def _sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    for value in config.values():
        if isinstance(value, Mapping):
            yield from _sections(value)
