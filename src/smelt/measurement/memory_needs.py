"""What looking at data needs, from the shapes of a model's tensors alone: before a number of it is read.

With P the numbers of the whole model, M those that are measured (all but embeddings and head), t the tokens of the
longest example, V the vocabulary, b the bytes of a weight (4: statistics and learning compute in float32):

    weights       b P
    fisher        4 M  sums of a chunk, where the network computes     + 8 M  sums of all, in main memory
    regmean       8 sum of w²  over the layers of one round, w a layer's inputs; all layers need as many rounds over the
                  data as it takes to stay below `memory`. Layers with one input (q, k, v; gate, up) share a matrix
                  + 16 n t w  over the same layers: the inputs of four chunks of n examples wait for their matrices
    localize      20 M: the merged model, the mask's scores, their two moments and their gradient
                  + d M  the change, d the bytes of its format; on disk with `deltas: disk`
    work          16 t V      the scores of t tokens, their softmax and gradients (not for regmean)
                  + 4 t w L   the inputs of all L blocks, as checkpoints
                  + 8 t s     one block's activations, s the inputs and outputs of its matrices together
                  + 8 m       the largest gradient m, once more while it is used

This is for one thread that computes; on a CPU each further one has sums of a chunk (fisher) or inputs (regmean) of its
own. What a process takes with torch and transformers loaded, about 0.4 GB, comes on top. Measured on a model of
135 million numbers with texts of 512 tokens: fisher 2.2 GB (2.3 by this formula), regmean 2.8 (2.2),
localize 3.8 (3.6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from smelt.errors import RecipeError, unknown
from smelt.files.reading import natural
from smelt.formats.architecture.layout import Layout, Orientation
from smelt.measurement.gram_rounds import TOGETHER, examples_at_once, rounds_of

__all__ = ["METHODS", "Needs", "is_measured", "memory_needs"]

METHODS = ("fisher", "regmean", "localize")
Method: TypeAlias = Literal["fisher", "regmean", "localize"]
_ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}


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


def memory_needs(
    shapes: Mapping[str, tuple[int, ...]],
    method: Method,
    *,
    dtype: str = "float32",
    examples: int,
    tokens: int,
    memory: int = 8 << 30,
    device: str = "cpu",
    deltas: Literal["memory", "disk"] = "memory",
    delta_dtype: str = "float32",
) -> Needs:
    """What one model needs for a method that looks at `examples` texts of at most `tokens` tokens.

    `memory` bounds the Gram matrices of one round; on an accelerator (`device`) more examples go through at once.
    `shapes` are a model's, as its header gives them; linear layers count as [out, in] however they are stored. `deltas`
    and `delta_dtype` are localize's: where the change lies, and in what format.
    """
    if method not in METHODS:
        raise RecipeError(unknown("method that looks at data", method, METHODS))
    for one in (dtype, delta_dtype):
        if one not in _ITEM:
            raise RecipeError(unknown("format of weights", one, _ITEM))
    if examples < 1 or tokens < 1:
        raise RecipeError(f"examples and tokens are at least 1; got {examples} and {tokens}")
    layers = Orientation(shapes)
    shapes = {name: at.shape if (at := layers.of(name)).count == 1 else shape for name, shape in shapes.items()}
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    own = {name: shape for name, shape in shapes.items() if is_measured(name)}
    weights, measured = _ITEM[dtype] * sum(sizes.values()), sum(sizes[name] for name in own)
    work = _work(shapes, own, tokens, scores=method != "regmean")
    if method == "fisher":
        return _sum(
            weights,
            12 * measured,
            work,
            1,
            main=8 * measured,
            disk=4 * measured,
            note="sums in float64 lie in main memory, all else where the model computes; blocks are checkpointed",
        )
    if method == "localize":
        change, on_disk = _ITEM[delta_dtype] * measured, deltas == "disk"
        less = "the change lies on disk" if on_disk else f"`deltas: disk` saves {_gb(change)}"
        return _sum(
            weights,
            20 * measured + (0 if on_disk else change),
            work,
            1,
            main=0,
            disk=measured,
            scratch=change if on_disk else 0,
            note=f"{less}; the dataless `localize_and_stitch` needs none of it",
        )
    widths = list(inputs_of(own).values())
    rounds = rounds_of(widths, lambda width: width, memory)
    matrices = max((8 * sum(width**2 for width in some) for some in rounds), default=0)
    chunk = examples_at_once(tokens * sum(widths), device)
    kept = 4 * TOGETHER * chunk * tokens * max(map(sum, rounds), default=0)
    return _sum(
        weights,
        matrices,
        work + kept,
        len(rounds),
        main=matrices,
        disk=8 * sum(width**2 for width in widths),
        note=f"{len(widths)} matrices in {len(rounds)} round{'s' * (len(rounds) != 1)} over {examples} examples, "
        "in main memory; more memory, fewer rounds",
    )


def _sum(
    weights: int, statistics: int, work: int, passes: int, *, main: int, disk: int, note: str, scratch: int = 0
) -> Needs:
    total = weights + statistics + work
    places = f"{_gb(total - main)} where the model computes, {_gb(main)} in main memory, {_gb(disk + scratch)} on disk"
    said = f"{places}: {note}"
    return Needs(weights, statistics, work, total, passes, said, device=total - main, disk=disk, scratch=scratch)


def is_measured(name: str) -> bool:
    """Whether a tensor of a language model is measured: all are but embeddings and head."""
    return not Layout.holds_vocabulary(name) and not Layout.before_blocks(name)


def _work(
    shapes: Mapping[str, tuple[int, ...]], own: Mapping[str, tuple[int, ...]], tokens: int, *, scores: bool
) -> int:
    vocabulary = max((shape[0] for name, shape in shapes.items() if Layout.holds_vocabulary(name)), default=0)
    blocks = _blocks(own)
    inside = max((sum(_inputs(own, block)) + sum(_outputs(own, block)) for block in blocks), default=0)
    width = min((shape[-1] for name, shape in own.items() if len(shape) == 2), default=0)
    if not scores:
        return 8 * tokens * inside  # no gradients: nothing is kept of the blocks before
    largest = max((math.prod(shape) for shape in own.values()), default=0)
    return 16 * tokens * vocabulary + 4 * tokens * width * len(blocks) + 8 * tokens * inside + 8 * largest


def _blocks(own: Mapping[str, tuple[int, ...]]) -> list[str]:
    found = {f"{block[0]}.{block[1]}." for name in own if (block := Layout.block(name)) is not None}
    return sorted(found)


def _inputs(own: Mapping[str, tuple[int, ...]], block: str) -> list[int]:
    return list(inputs_of({name: shape for name, shape in own.items() if name.startswith(block)}).values())


def _outputs(own: Mapping[str, tuple[int, ...]], block: str) -> list[int]:
    return [shape[0] for name, shape in own.items() if name.startswith(block) and Layout.is_matrix(name, shape)]


def _gb(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"


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
