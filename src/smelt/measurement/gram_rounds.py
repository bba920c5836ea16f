"""Gram matrices a few layers at a time: in rounds over the data, each for as many layers as memory holds matrices.

A layer of 14,336 inputs has a matrix of 1.6 GB in float64, and a large language model has dozens of such layers. Their
sums are the same whatever the rounds: what is added, and in which order, does not depend on them. What a measurement
takes and what a plan says of it (`smelt.prepare.memory_needs`) come from the same numbers here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.layer_inputs import InputGroup

__all__ = ["CHUNK", "TOGETHER", "Grams", "examples_at_once", "rounds_of"]

T = TypeVar("T")


CHUNK, TOGETHER = 32, 4
"""Examples of a forward pass, and how many such chunks, or more, are kept and go into the sums at once."""
_MEMORY, _MEMORY_ELSEWHERE = 512 << 20, 2 << 30
"""Bytes of the inputs of all chunks that are kept, in main memory or on an accelerator."""


def examples_at_once(numbers: float, device: str, chunk: int = CHUNK) -> int:
    """Examples of a chunk: the number asked for, or the power of two below it with which `TOGETHER` chunks fit.

    `numbers` are the float32 numbers that the longest example gives all layers. One example is the least. It does not
    depend on the number of threads, since the sums' last bits depend on it.
    """
    memory = _MEMORY if device == "cpu" else _MEMORY_ELSEWHERE
    most = max(1, int(memory / TOGETHER / (4 * numbers or 1)))
    return chunk if chunk <= most else 1 << (most.bit_length() - 1)


def rounds_of(layers: Sequence[T], width: Callable[[T], int], memory: int) -> list[list[T]]:
    """Layers in their order, in as few runs as have at most `memory` bytes of float64 matrices each (or one)."""
    rounds: list[list[T]] = []
    room = 0
    for layer in layers:
        size = 8 * width(layer) ** 2
        if not rounds or size > room:
            rounds.append([])
            room = memory
        rounds[-1].append(layer)
        room -= size
    return rounds


class Grams(Mapping[str, "Tensor"]):
    """By the key of a layer's weight the float64 sum of its inputs' products; made when it is asked for.

    Asked for in order, each round is made once, and let go when the next one is. Layers with one input stand under
    the first of them; `tied` tells the others.
    """

    def __init__(
        self,
        rounds: Sequence[Sequence[InputGroup]],
        widths: Mapping[str, int],
        collect: Callable[[Sequence[InputGroup]], dict[str, Tensor]],
    ):
        self._rounds, self._widths, self._collect = rounds, widths, collect
        self._place = {group.leader: number for number, some in enumerate(rounds) for group in some}
        self._now, self._made = -1, dict[str, "Tensor"]()
        self.after: Callable[[], None] = lambda: None
        """Called when the last round is made."""

    @property
    def passes(self) -> int:
        """How often the data is looked at."""
        return len(self._rounds)

    @property
    def keys_in_order(self) -> list[str]:
        """Every layer that has a matrix, under its own name or another's."""
        return [key for some in self._rounds for group in some for key in group.keys]

    @property
    def tied(self) -> dict[str, str]:
        """Every layer whose matrix stands under another name -> that name."""
        groups = [group for some in self._rounds for group in some]
        return {key: group.leader for group in groups for key in group.keys[1:]}

    @property
    def described(self) -> dict[str, Tensor]:
        """The shapes of all matrices, without a number being computed."""
        import torch

        return {key: torch.empty(self._widths[key], self._widths[key], device="meta") for key in self}

    def __getitem__(self, key: str) -> Tensor:
        number = self._place[key]
        if number != self._now:
            self._made = {}  # before the next ones are made
            self._made, self._now = self._collect(self._rounds[number]), number
            if self._now == len(self._rounds) - 1:
                self.after()
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)
