"""Sums over a stream, chunk by chunk: each thread takes a chunk on a core of its own, and they are added in order.

A chunk's sums are float32 and are added in float64, which loses nothing as long as one element's largest and smallest
chunk differ by less than about 2^29 / (number of chunks). Chunks begin at multiples of their size in the stream. So
the sums do not depend on the number of threads, and parts of a stream that meet at such a multiple add up to the
whole.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from smelt.errors import NumericalError, RecipeError
from smelt.evaluate.ahead import ahead, one_core_each

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.evaluate.examples import Stream
    from smelt.pool.families.network import Network

__all__ = ["Watch", "Work", "check_finite", "own_copy", "span", "summed"]

Work: TypeAlias = "Callable[[range], dict[str, Tensor]]"
"""From the places of some examples to their sums."""


class Watch(Protocol):
    """Whoever wants to know how far it is."""

    def advance(self, amount: int) -> None: ...


def span(stream: Stream, first: int, examples: int | None) -> range:
    """The places of the examples to use; fewer than asked for is an error."""
    left = len(stream) - first
    count = left if examples is None else examples
    if first < 0 or count < 1:
        raise RecipeError(f"{stream.name}: {count} examples from {first} on; ask for at least one of {len(stream)}")
    if count > left:
        raise RecipeError(
            f"{stream.name}: {count} examples from {first} on are asked for, but there are {left}; "
            "ask for fewer, or give a longer stream"
        )
    return range(first, first + count)


def summed(
    network: Network,
    places: range,
    prepare: Callable[[Network], Work],
    *,
    chunk: int,
    threads: int | None = None,
    watch: Watch | None = None,
) -> dict[str, Tensor]:
    """The float64 sums of all chunks, in main memory.

    `prepare` makes the work of one thread, on a copy of the network for itself.
    """
    import torch

    if chunk < 1:
        raise RecipeError(f"chunk is a number of examples, at least 1; got {chunk}")
    threads = 1 if network.device != "cpu" else threads or torch.get_num_threads()
    own = threading.local()

    def work(part: range) -> tuple[int, dict[str, Tensor]]:
        if not hasattr(own, "work"):
            own.work = prepare(own_copy(network))
        return len(part), own.work(part)

    totals: dict[str, Tensor] = {}
    with one_core_each(threads, "smelt-measure") as pool:
        for count, sums in ahead(pool, work, _parts(places, chunk), threads):
            for key, tensor in sums.items():
                if key in totals:
                    totals[key].add_(tensor.cpu())
                else:
                    totals[key] = tensor.cpu().to(torch.float64)
            if watch is not None:
                watch.advance(count)
    return totals


def check_finite(sums: Mapping[str, Tensor], what: str, label: str, task: str) -> None:
    """Refuse sums with a NaN or an infinity in them, by the tensor's name."""
    for key, tensor in sums.items():
        if not bool(tensor.isfinite().all()):
            raise NumericalError(
                f"{what} of {key!r} is NaN or infinite for {label} on {task}; its weights or the data are not sound"
            )


def _parts(places: range, chunk: int) -> Iterator[range]:
    start = places.start
    while start < places.stop:
        stop = min((start // chunk + 1) * chunk, places.stop)
        yield range(start, stop)
        start = stop


def own_copy(network: Network) -> Network:
    """Its structure anew, for hooks and exchanged weights that no other thread sees; the numbers are shared."""
    numbers = (*network.module.parameters(), *network.module.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in numbers})
