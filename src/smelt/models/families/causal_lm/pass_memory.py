"""What passes through a language model take, from the shapes of its tensors alone: before a number of it is read.

    16 t V      the scores of t tokens over a vocabulary of V, their softmax and gradients
    4 t w L     the inputs of all L blocks of width w, as checkpoints
    8 t s       one block's activations, s the inputs and outputs of its matrices together

In float32, which statistics and learning compute in. Here are the letters; who adds them up says how.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.files.reading import natural
from smelt.formats.architecture.layout import Layout, Orientation
from smelt.formats.folder_files import read_config

if TYPE_CHECKING:
    from smelt.formats.source import Source

__all__ = [
    "Needs",
    "PassShapes",
    "inputs_of",
    "is_language_model",
    "is_measured",
    "needs_of",
    "oriented",
    "shown_bytes",
    "tokens_at_once",
]

_TOGETHER = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("wq", "wk", "wv"),
    ("gate_proj", "up_proj"),
    ("w1", "w3"),
)
"""Layers that are given one and the same input, by their names: what a header can tell. What is measured on a real
network finds this out by looking (`smelt.measurement.layer_inputs`)."""


@dataclass(frozen=True)
class Needs:
    """Bytes, for one model."""

    bytes_weights: int
    bytes_statistics: int
    bytes_work: int
    total: int
    """All of them together, wherever they lie."""
    passes: int
    """How often the data goes through the model (for `localize`: once a step, for its batch)."""
    note: str
    """For people: where it lies, and what makes it less."""
    device: int = 0
    """The part that lies where the network computes."""
    disk: int = 0
    """What the statistics take when they are kept: Gram matrices in float64, Fishers in float32, masks as bytes."""
    scratch: int = 0
    """What lies on disk while one model is looked at."""


def needs_of(
    weights: int, statistics: int, work: int, passes: int, *, main: int, disk: int, note: str, scratch: int = 0
) -> Needs:
    """The sum. `main` is what of it lies in main memory, beside what lies where the model computes."""
    total = weights + statistics + work
    places = (
        f"{shown_bytes(total - main)} where the model computes, {shown_bytes(main)} in main memory, "
        f"{shown_bytes(disk + scratch)} on disk"
    )
    said = f"{places}: {note}"
    return Needs(weights, statistics, work, total, passes, said, device=total - main, disk=disk, scratch=scratch)


def shown_bytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


@dataclass(frozen=True)
class PassShapes:
    """The letters of a model's shapes."""

    vocabulary: int
    width: int
    blocks: Mapping[str, int]
    """The numbers of each block, by name."""
    inside: int
    """Inputs and outputs of a block's matrices together, of the block that has most."""
    largest: int
    """The numbers of the largest tensor that is no embedding and no head."""

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> PassShapes:
        own = {name: shape for name, shape in shapes.items() if is_measured(name)}
        blocks: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, shape in own.items():
            if (block := Layout.block(name)) is not None:
                blocks.setdefault(f"{block[0]}.{block[1]}", {})[name] = shape
        return cls(
            vocabulary=max((shape[0] for name, shape in shapes.items() if Layout.holds_vocabulary(name)), default=0),
            width=min((shape[-1] for shape in own.values() if len(shape) == 2), default=0),
            blocks={name: sum(map(math.prod, some.values())) for name, some in blocks.items()},
            inside=max((sum(inputs_of(some).values()) + _outputs(some) for some in blocks.values()), default=0),
            largest=max(map(math.prod, own.values()), default=0),
        )

    def scores(self, tokens: int) -> int:
        return 16 * tokens * self.vocabulary

    def checkpoints(self, tokens: int) -> int:
        return 4 * tokens * self.width * len(self.blocks)

    def activations(self, tokens: int) -> int:
        return 8 * tokens * self.inside


def oriented(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes with linear layers as [out, in], however they are stored."""
    layers = Orientation(shapes)
    return {name: at.shape if (at := layers.of(name)).count == 1 else shape for name, shape in shapes.items()}


def tokens_at_once(longest: int, examples: int, limit: int) -> int:
    """The tokens of texts that go through together: as many texts as stay within the limit, and one at least."""
    return longest * max(1, min(examples, limit // longest))


def is_measured(name: str) -> bool:
    """Whether a tensor of a language model is measured: all are but embeddings and head."""
    return not Layout.holds_vocabulary(name) and not Layout.before_blocks(name)


def is_language_model(source: Source) -> bool:
    """By its config, or by being one of the known sizes."""
    from smelt.models.weightless import ShapeSource

    kinds = (read_config(source.folder) or {}).get("architectures") or [""]
    return isinstance(source, ShapeSource) or str(kinds[0]).endswith(("ForCausalLM", "LMHeadModel"))


def inputs_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """For every different input of a linear layer its width, by the name of the first layer that is given it."""
    found: dict[tuple[str, str], str] = {}
    for name in sorted(shapes, key=natural):
        if Layout.is_matrix(name, shapes[name]):
            found.setdefault(_input(name), name)
    return {name: int(shapes[name][1]) for name in found.values()}


def _input(name: str) -> tuple[str, str]:
    owner, _, layer = name.removesuffix(".weight").rpartition(".")
    return owner, next((some[0] for some in _TOGETHER if layer in some), layer)


def _outputs(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(shape[0] for name, shape in shapes.items() if Layout.is_matrix(name, shape))
