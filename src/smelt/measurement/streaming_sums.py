"""Sums over a stream, chunk by chunk: each thread takes a chunk on a core of its own, and adds it when it is its turn.

A chunk's sums are float32 and are added in float64, which loses nothing as long as one element's largest and smallest
chunk differ by less than about 2^29 / (number of chunks). Chunks begin at multiples of their size in the stream. So
the sums do not depend on the number of threads, and parts of a stream that meet at such a multiple add up to the
whole.
"""

from __future__ import annotations

import contextlib
import copy
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from smelt.errors import NumericalError, RecipeError
from smelt.system.threads import map_ahead, single_core_pool

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream

__all__ = [
    "NoScores",
    "Watch",
    "Work",
    "check_finite",
    "own_copy",
    "parts",
    "span",
    "summed",
    "threads_for",
    "with_own_copy",
]

Found = TypeVar("Found")

Work: TypeAlias = "Callable[[range], dict[str, Tensor]]"
"""From the places of some examples to their sums."""


class NoScores(Exception):
    """A network gave scores that are not finite."""


class Watch(Protocol):
    """Whoever wants to know how far it is."""

    def advance(self, amount: int) -> None: ...


def span(stream: ExampleStream, first: int, examples: int | None) -> range:
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
    threads = threads_for(network, threads)
    work, chunks, totals = with_own_copy(network, prepare), parts(places, chunk), _Totals()

    def added(number: int) -> int:
        with totals.in_turn(number) as add:
            add(work(chunks[number]))
        return len(chunks[number])

    with single_core_pool(threads, "smelt-measure") as pool:
        for count in map_ahead(pool, added, range(len(chunks)), threads):
            if watch is not None:
                watch.advance(count)
    return totals.tensors


class _Totals:
    """Float64 sums to which threads add what they found, each tensor in the order of the chunks.

    A thread waits for a tensor, not for all of them: two that end together add together, one tensor apart.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._news = threading.Condition()
        self._added: dict[str, int] = {}
        self._ended: set[int] = set()
        self._failed = False

    @contextlib.contextmanager
    def in_turn(self, number: int) -> Iterator[Callable[[Mapping[str, Tensor]], None]]:
        """Gives what adds the sums of a chunk. Chunks must be begun in their order, so that nobody waits for ever."""

        def add(sums: Mapping[str, Tensor]) -> None:
            for key, tensor in sums.items():
                with self._news:
                    while not (self._failed or self._is_next(key, number)):
                        self._news.wait()
                    if self._failed:
                        return
                self._add(key, tensor)
                with self._news:
                    self._added[key] = number
                    self._news.notify_all()

        try:
            yield add
        except BaseException:
            self._failed = True  # whoever waits for this chunk need not go on
            raise
        finally:
            with self._news:
                self._ended.add(number)
                self._news.notify_all()

    def _is_next(self, key: str, number: int) -> bool:
        """Whether every chunk before has added to this tensor, or has ended without."""
        return all(before in self._ended for before in range(self._added.get(key, -1) + 1, number))

    def _add(self, key: str, tensor: Tensor) -> None:
        import torch

        if key in self.tensors:
            self.tensors[key].add_(tensor.cpu())
        else:
            self.tensors[key] = tensor.cpu().to(torch.float64)


def threads_for(network: Network, threads: int | None) -> int:
    """How many threads measure a network; what is no CPU has its own ways to be busy."""
    import torch

    return 1 if network.device != "cpu" else threads or torch.get_num_threads()


def with_own_copy(network: Network, prepare: Callable[[Network], Callable[[range], Found]]) -> Callable[[range], Found]:
    """Work that any thread can do: `prepare` makes it for each of them, on a copy of the network for itself."""
    own = threading.local()

    def work(part: range) -> Found:
        if not hasattr(own, "work"):
            own.work = prepare(own_copy(network))
        found: Found = own.work(part)
        return found

    return work


def check_finite(sums: Mapping[str, Tensor], what: str, label: str, task: str) -> None:
    """Refuse sums with a NaN or an infinity in them, by the tensor's name."""
    for key, tensor in sums.items():
        # The sum is quicker, and finite only where all of them are.
        if not math.isfinite(float(tensor.sum())) and not bool(tensor.isfinite().all()):
            raise NumericalError(
                f"{what} of {key!r} is NaN or infinite for {label} on {task}; its weights or the data are not sound"
            )


def parts(places: range, chunk: int) -> list[range]:
    """The chunks: they begin at multiples of their size."""
    if chunk < 1:
        raise RecipeError(f"chunk is a number of examples, at least 1; got {chunk}")
    return list(_parts(places, chunk))


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
