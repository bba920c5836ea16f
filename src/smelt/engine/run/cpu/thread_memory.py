"""How much memory a thread of the vector machine takes for an item: its buffers, its registers, what a pass gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.engine.run.cpu import machine
from smelt.engine.run.cpu.backend import _AT_ONCE, _READ, _SPAN
from smelt.engine.run.cpu.program import WIDTH
from smelt.engine.run.cpu.rule_table import RULES, stored_dtype
from smelt.formats.dtype import item_size

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, Tap

__all__ = ["vector_thread_memory"]

_BYTES_OF_A_HASH = 32
"""Of what is read and written, 1,024 bytes have a hash of 32 until their span is done."""


def vector_thread_memory(item: Item) -> int:
    """Bytes that a thread takes for it. Buffers are as large as the largest block so far, and never tiny.

    What a pass gathers of a span is no more than a fold without room holds: its histograms, or the few in its brackets.
    """
    count, out = item.info.count, item_size(item.info.dtype)
    if item.copied:
        stored = item_size(stored_dtype(item.copied_from))
        given = _buffer(min(_AT_ONCE, count) * stored) if stored_dtype(item.copied_from) != item.info.dtype else 0
        return _buffer(min(_AT_ONCE, count) * out) + given
    models, width = len(item.taps), item.row_length if item.unit == "row" else WIDTH
    by_row = any(_multiplies_rows(item, number) for number in range(len(item.stages)))
    step = _READ if not by_row and all(_is_read_by_machine(tap) for tap in item.all_taps) else _AT_ONCE
    inputs = [_buffer(min(max(step, width), count) * item_size(stored_dtype(tap))) for tap in item.all_taps]
    registers = 4 * (2 * len(item.all_taps) + 8) * (width + machine.SPARE)
    grams = 2 * 8 * models**2 * (min(_SPAN, count) // width) if by_row else 0
    folds = (run.stage.fold_for(run.parameters) for run in item.stages)
    gathered = (fold.holds(min(_SPAN, count), models, 0) for fold in folds if fold is not None)
    span = min(_SPAN, count)
    hashes = span * (sum(item_size(stored_dtype(tap)) for tap in item.all_taps) + out) // _BYTES_OF_A_HASH
    return sum(inputs) + _buffer(span * out) + registers + grams + hashes + max(gathered, default=0)


def _buffer(size: int) -> int:
    return max(size, 2 * _READ)


def _is_read_by_machine(tap: Tap) -> bool:
    return machine.READS_FILES and tap.source.stored_at(tap.key) is not None


def _multiplies_rows(item: Item, number: int) -> bool:
    run = item.stages[number]
    return RULES[run.stage.name].row_factors is not None and run.parameters.get("over") == "row"
