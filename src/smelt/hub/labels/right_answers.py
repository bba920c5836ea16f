"""What every model of a segment gets right on some nodes, if it must choose among these alone.

A picture is right exactly if no selected node beats its own on it: of each node's pairs those are looked up whose
beater is selected, and the masks of their entries are joined, for each model. right_answers.c joins them; where it is
not compiled numpy does, with the same result, ten times as slowly.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Executor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.labels.segment import Segment
from smelt.system.process import native_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["compiled_answers", "counted_pictures", "right_answers"]


def counted_pictures(
    segment: Segment, chosen: NDArray[np.int64], keep: NDArray[np.bool_] | None = None
) -> NDArray[np.uint64]:
    """A bit for each picture of each node that counts, [nodes, words]; the same for all segments on a graph."""
    sizes, starts = segment.sizes[chosen], segment.numbered[chosen].astype(np.int64)
    words = int(-(-segment.widths[chosen].max() // 8))
    flags = np.arange(64 * words) < sizes[:, None]
    if keep is not None:
        if len(keep) != segment.graph_pictures:
            raise RecipeError(
                f"keep has {len(keep)} entries, but the graph of the index has {segment.graph_pictures} pictures"
            )
        try:
            flags[flags] = np.asarray(keep, dtype=bool)[_joined(segment.pictures, starts, starts + sizes)]
        except (IndexError, ValueError):
            raise segment.damaged("the pictures of a node are not in the graph") from None
    return np.packbits(flags, axis=1, bitorder="little").view("<u8")


def right_answers(
    segment: Segment,
    chosen: NDArray[np.int64],
    counted: NDArray[np.uint64],
    pool: Executor | None = None,
    parts: int = 1,
) -> NDArray[np.uint32]:
    """Right answers [nodes, models of the segment]. With a pool the nodes are shared out in as many parts."""
    among = np.zeros(segment.nodes, dtype=bool)
    among[chosen] = True
    right = np.zeros((len(chosen), segment.models), dtype=np.uint32)

    def work(part: slice) -> None:
        _count(segment, chosen[part], counted[part], among, right[part])

    bounds = [len(chosen) * number // parts for number in range(parts + 1)]
    shares = [slice(first, last) for first, last in pairwise(bounds) if first < last]
    list((pool.map if pool is not None else map)(work, shares))
    return right


def _count(
    segment: Segment,
    chosen: NDArray[np.int64],
    counted: NDArray[np.uint64],
    among: NDArray[np.bool_],
    right: NDArray[np.uint32],
) -> None:
    ends, places, counts = _met(segment, chosen, among)
    widths, library = segment.widths[chosen], compiled_answers()
    if library is None:
        _count_slowly(segment, ends, places, counts, widths, counted, right)
        return
    counted, widths = np.ascontiguousarray(counted), np.ascontiguousarray(widths)
    wrong = np.empty((segment.models, counted.shape[1]), dtype=np.uint64)
    addresses = [array.ctypes.data for array in (ends, places, counts, widths)]
    failed = library.smelt_answers_right(
        segment.blocks.ctypes.data,
        segment.models,
        len(chosen),
        *addresses,
        counted.shape[1],
        counted.ctypes.data,
        wrong.ctypes.data,
        right.ctypes.data,
        segment.path is not None,
    )
    if failed:
        raise segment.damaged("a list holds a model that is not there")


def _met(
    segment: Segment, chosen: NDArray[np.int64], among: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of the nodes whose beater is selected: how many up to each node, their places, their lengths."""
    starts, stops = segment.offsets[chosen].astype(np.int64), segment.offsets[chosen + 1].astype(np.int64)
    _expect(segment, starts, stops)
    pairs = _joined(segment.pairs, starts, stops)
    lengths = stops - starts
    try:
        hits = np.flatnonzero(among[pairs["beater"]])
    except IndexError:
        raise segment.damaged("a list holds a node that is not in the graph") from None
    stop_at = np.cumsum(lengths)
    ends = np.searchsorted(hits, stop_at)
    node = np.repeat(np.arange(len(chosen)), np.diff(ends, prepend=0))
    entries = (segment.entries[chosen + 1] - segment.entries[chosen]).astype(np.int64)[node]
    begin = pairs["start"][hits].astype(np.int64)
    after = np.append(pairs["start"], 0).astype(np.int64)[hits + 1]
    end = np.where(hits + 1 == stop_at[node], entries, after)
    if len(hits) and ((begin > end) | (end > entries)).any():
        raise segment.damaged("the entries of a node lie outside of it")
    places = segment.positions[chosen][node] + begin * (2 + segment.widths[chosen][node])
    return ends.astype(np.int64), places, end - begin


def _count_slowly(
    segment: Segment,
    ends: NDArray[np.int64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    widths: NDArray[np.int64],
    counted: NDArray[np.uint64],
    right: NDArray[np.uint32],
) -> None:
    first, room = 0, counted.shape[1] * 8
    for node, (end, width) in enumerate(zip(ends.tolist(), widths.tolist(), strict=True)):
        wrong = np.zeros((segment.models, room), dtype=np.uint8)
        for place, count in zip(places[first:end].tolist(), counts[first:end].tolist(), strict=True):
            block = segment.blocks[place : place + count * (2 + width)]
            models = block[: 2 * count : 2].astype(np.int64) | block[1 : 2 * count : 2].astype(np.int64) << 8
            if count and models.max() >= segment.models:
                raise segment.damaged("a list holds a model that is not there")
            wrong[models, :width] |= block[2 * count :].reshape(count, width)
        right[node] = np.bitwise_count(~wrong.view("<u8") & counted[node]).sum(axis=1, dtype=np.uint32)
        first = end


def _joined(column: NDArray[Any], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[Any]:
    return np.concatenate([column[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])


def _expect(segment: Segment, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
    """Have the system read the nodes' pairs, which lie scattered, all at once."""
    library = compiled_answers()
    if library is None or segment.path is None:
        return
    base, size = segment.pairs.ctypes.data, segment.pairs.itemsize
    for first, last in zip(starts.tolist(), stops.tolist(), strict=True):
        library.smelt_answers_expect(base + first * size, (last - first) * size)


@cache
def compiled_answers() -> ctypes.CDLL | None:
    """The functions of right_answers.c, where they are compiled."""
    found = native_library(Path(__file__).parent, "_answers")
    if found is None:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    try:
        found.smelt_answers_expect.argtypes = [pointer, number]
        found.smelt_answers_expect.restype = None
        arguments: list[Any] = [pointer, number, number, *[pointer] * 4, number, pointer, pointer, pointer, number]
        found.smelt_answers_right.argtypes, found.smelt_answers_right.restype = arguments, number
    except AttributeError:  # made by another version of Smelt
        return None
    return found
