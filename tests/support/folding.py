"""Running a fold by hand: tensors cut into blocks, as the engine would."""

from functools import reduce

import torch

from smelt.ops.block import Block, Place


def blocks_of(tensors, size):
    """Stacks (models, elements), one per tensor, cut into blocks of `size` elements."""
    blocks = []
    for order, stack in enumerate(tensors):
        for start in range(0, stack.shape[1], size):
            part = stack[:, start : start + size]
            names = tuple(f"m{row}" for row in range(len(stack)))
            place = Place(f"t{order}", order, tuple(stack.shape[1:]), start, start + part.shape[1], 0.0, names)
            blocks.append(Block(part, None, place))
    return blocks


def run_fold(fold, blocks):
    """Stream the blocks past the fold until it has had enough; how many passes that took."""
    passes = 0
    while fold.wants_pass:
        fold.absorb(reduce(fold.join, [fold.look(block) for block in blocks]))
        passes += 1
    assert passes <= fold.passes
    return passes


def largest_by_sorting(row, count):
    """The row with all but its `count` largest magnitudes zero; of equals the first stay."""
    order = torch.argsort(row.abs(), descending=True, stable=True)
    kept = torch.zeros_like(row)
    kept[order[:count]] = row[order[:count]]
    return kept
