"""What looking at data needs, from the shapes of a model's tensors alone: before a number of it is read.

With P the numbers of the whole model, M those that are measured (all but embeddings and head), t the tokens of the
longest example, V the vocabulary, b the bytes of a weight (4: statistics and learning compute in float32):

    weights       b P
    fisher        4 M  sums of a chunk, where the network computes     + 8 M  sums of all, in main memory
    regmean       8 sum of w²  over the layers of one round, w a layer's inputs; all layers need as many rounds over the
                  data as it takes to stay below `memory`. Layers with one input (q, k, v; gate, up) share a matrix
                  + 16 n t w  over the same layers: the inputs of four chunks of n examples wait for their matrices
    work          16 t V      the scores of t tokens, their softmax and gradients (not for regmean)
                  + 4 t w L   the inputs of all L blocks, as checkpoints
                  + 8 t s     one block's activations, s the inputs and outputs of its matrices together
                  + 8 m       the largest gradient m, once more while it is used

What `localize` needs is in `smelt.learning.localize_memory`. This is for one thread that computes; on a CPU each
further one has sums of a chunk (fisher) or inputs (regmean) of its own. What a process takes with torch and
transformers loaded, about 0.4 GB, comes on top. Measured on a model of 135 million numbers with texts of 512 tokens:
fisher 2.2 GB (2.3 by this formula), regmean 2.8 (2.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from smelt.errors import RecipeError, unknown
from smelt.learning.localize_memory import BATCH, StepBy, localize_needs, step_that_fits
from smelt.measurement.gram_rounds import TOGETHER, examples_at_once, rounds_of
from smelt.models.families.causal_lm.pass_memory import (
    Needs,
    PassShapes,
    inputs_of,
    is_measured,
    needs_of,
    oriented,
    shown_bytes,
)

__all__ = ["METHODS", "Method", "memory_needs"]

METHODS = ("fisher", "regmean", "localize")
Method: TypeAlias = Literal["fisher", "regmean", "localize"]
_ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}


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
    step_by: StepBy = "model",
    batch: int = BATCH,
    steps: int = 100,
    base_bytes: int = 2,
    model_bytes: int = 2,
    room: int | None = None,
) -> Needs:
    """What one model needs for a method that looks at `examples` texts of at most `tokens` tokens.

    `memory` bounds the Gram matrices of one round; on an accelerator (`device`) more examples go through at once.
    `shapes` are a model's, as its header gives them; linear layers count as [out, in] however they are stored. What
    follows is localize's: where the change lies and in what format, how a step is taken (`auto`: as it fits into
    `room`), texts in a step, steps, and the bytes of a number in the checkpoints.
    """
    if method not in METHODS:
        raise RecipeError(unknown("method that looks at data", method, METHODS))
    for one in (dtype, delta_dtype):
        if one not in _ITEM:
            raise RecipeError(unknown("format of weights", one, _ITEM))
    if examples < 1 or tokens < 1:
        raise RecipeError(f"examples and tokens are at least 1; got {examples} and {tokens}")
    if method == "localize":
        how = {"tokens": tokens, "batch": batch, "steps": steps, "device": device, "base_bytes": base_bytes}
        where = {**how, "model_bytes": model_bytes, "deltas": deltas, "delta_dtype": delta_dtype}
        return _localize(shapes, step_by, room, where)
    shapes = oriented(shapes)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    own = {name: shape for name, shape in shapes.items() if is_measured(name)}
    weights, measured = _ITEM[dtype] * sum(sizes.values()), sum(sizes[name] for name in own)
    letters = PassShapes.of(shapes)
    work = letters.activations(tokens)  # without gradients nothing is kept of the blocks before
    if method == "fisher":
        work += letters.scores(tokens) + letters.checkpoints(tokens) + 8 * letters.largest
        return needs_of(
            weights,
            12 * measured,
            work,
            1,
            main=8 * measured,
            disk=4 * measured,
            note="sums in float64 lie in main memory, all else where the model computes; blocks are checkpointed",
        )
    widths = list(inputs_of(own).values())
    rounds = rounds_of(widths, lambda width: width, memory)
    matrices = max((8 * sum(width**2 for width in some) for some in rounds), default=0)
    chunk = examples_at_once(tokens * sum(widths), device)
    kept = 4 * TOGETHER * chunk * tokens * max(map(sum, rounds), default=0)
    return needs_of(
        weights,
        matrices,
        work + kept,
        len(rounds),
        main=matrices,
        disk=8 * sum(width**2 for width in widths),
        note=f"{len(widths)} matrices in {len(rounds)} round{'s' * (len(rounds) != 1)} over {examples} examples, "
        "in main memory; more memory, fewer rounds",
    )


def _localize(shapes: Mapping[str, tuple[int, ...]], step_by: StepBy, room: int | None, where: dict[str, Any]) -> Needs:
    """By the step that `auto` takes; and what the other way would need."""
    whole = localize_needs(shapes, step_by="model", **where)
    if step_that_fits(step_by, room, whole) == "model":
        return whole
    parts = localize_needs(shapes, step_by="block", **where)
    return replace(parts, note=f"{parts.note}; with `step_by: model` {shown_bytes(whole.device)}")
