"""What trained Localize-and-Stitch needs for one model, from shapes alone; and which way to take a step fits.

With P the numbers of the whole model, M those that have a mask, B those of all blocks and B1 of the largest, O the
others, m the largest tensor, t the tokens that go through at once, T the tokens of a whole batch, b and e the bytes of
a number in the base's and the model's checkpoint (2 in bfloat16), d those of a change (4 in float32, 0 on disk):

    step_by: model       4 P          the base, which is the network
                       + 4 M          the merged model
                       + 4 M          the scores S
                       + 8 M          their two moments
                       + 4 M          their gradient
                       + d M          the change
                       + work         16 t V + 4 t w L + 8 t s + 8 m   (smelt.models.families.causal_lm.pass_memory)

    step_by: block       4 O          embeddings, head and last norm
                       + b B          the base's blocks
                       + e M          the model, from which the change is worked out; d M where it is rounded or on disk
                       + 4 T w L      the inputs of all blocks, for the whole batch
                       + the larger of   16 t V                    the scores over the vocabulary, no block beside
                                    and  8 B1 + 12 m + 8 t s       one block: merged, its gradients, its activations
        in main memory   4 M          the scores S
                       + 8 M          their two moments
    on disk              M            the mask, a byte each
                       + 12 M         scores and moments, every 50 steps; twice while they are replaced

On a CPU there is one memory, and by block nothing travels: the sum of both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from smelt.learning.block_passes import BLOCK_TOKENS
from smelt.learning.parallel_passes import TOKENS
from smelt.models.families.causal_lm.pass_memory import (
    Needs,
    PassShapes,
    is_measured,
    needs_of,
    oriented,
    shown_bytes,
    tokens_at_once,
)

__all__ = ["BATCH", "StepBy", "localize_needs", "step_that_fits"]

StepBy: TypeAlias = Literal["auto", "model", "block"]
BATCH, _STEPS, _SAVE_EVERY = 32, 100, 50
_ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}
_DATALESS = "the dataless `localize_and_stitch` needs none of it"


@dataclass(frozen=True)
class _Counts:
    """The letters."""

    whole: int
    masked: int
    in_blocks: int
    block: int
    passes: PassShapes


def localize_needs(
    shapes: Mapping[str, tuple[int, ...]],
    *,
    step_by: Literal["model", "block"],
    tokens: int,
    batch: int = BATCH,
    steps: int = _STEPS,
    device: str = "cpu",
    deltas: Literal["memory", "disk"] = "memory",
    delta_dtype: str = "float32",
    base_bytes: int = 2,
    model_bytes: int = 2,
    masked: Collection[str] | None = None,
) -> Needs:
    """For texts of at most `tokens` tokens. `masked` are the tensors with a mask: all but embeddings and head."""
    shapes = oriented(shapes)
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    chosen = [name for name in shapes if is_measured(name)] if masked is None else [n for n in shapes if n in masked]
    letters = PassShapes.of(shapes)
    counts = _Counts(
        whole=sum(sizes.values()),
        masked=sum(sizes[name] for name in chosen),
        in_blocks=sum(letters.blocks.values()),
        block=max(letters.blocks.values(), default=0),
        passes=letters,
    )
    kind = device.split(":")[0]
    limit = TOKENS["cpu" if kind == "cpu" else "cuda"]
    change, on_disk = _ITEM[delta_dtype] * counts.masked, deltas == "disk"
    saved = 12 * counts.masked * max(1, min(2, (steps - 1) // _SAVE_EVERY))
    kept = {"disk": counts.masked, "scratch": saved + (change if on_disk else 0)}
    less = "the change lies on disk" if on_disk else f"`deltas: disk` saves {shown_bytes(change)}"
    if step_by == "model":
        at_once = tokens_at_once(tokens, batch, limit)
        work = letters.scores(at_once) + letters.checkpoints(at_once) + letters.activations(at_once)
        return needs_of(
            4 * counts.whole,
            20 * counts.masked + (0 if on_disk else change),
            work + 8 * letters.largest,
            1,
            main=0,
            note=f"the whole model at once; {less}; {_DATALESS}",
            **kept,
        )
    if deltas == "memory" and delta_dtype == "float32":
        change = model_bytes * counts.masked
        less = "the change is worked out from base and model"
    at_once = tokens_at_once(tokens, batch, min(limit, BLOCK_TOKENS))
    weights = 4 * (counts.whole - counts.in_blocks) + base_bytes * counts.in_blocks
    one_block = 8 * counts.block + 12 * letters.largest + letters.activations(at_once)
    work = letters.checkpoints(tokens * batch) + max(letters.scores(at_once), one_block)
    return needs_of(
        weights,
        12 * counts.masked + (0 if on_disk else change),
        work,
        1,
        main=0 if kind == "cpu" else 12 * counts.masked,
        note=f"block by block, scores and moments in main memory; {less}; {_DATALESS}",
        **kept,
    )


def step_that_fits(step_by: StepBy, room: int | None, model: Needs) -> Literal["model", "block"]:
    """What `auto` means where `room` bytes are free: the whole model at once, which is quicker, if it fits."""
    if step_by != "auto":
        return step_by
    return "model" if room is None or model.device <= room else "block"
