"""Gram matrices a few layers at a time: in rounds over the data, each for as many layers as memory holds matrices.

A layer of 14,336 inputs has a matrix of 1.6 GB in float64, and a large language model has dozens of such layers. Their
sums are the same whatever the rounds: what is added, and in which order, does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.measurement.inputs import Group

__all__ = ["Grams", "rounds_of"]


def rounds_of(groups: Sequence[Group], widths: Mapping[str, int], memory: int) -> list[list[Group]]:
    """The groups in their order, in as few runs as have at most `memory` bytes of float64 matrices each (or one)."""
    rounds: list[list[Group]] = []
    room = 0
    for group in groups:
        size = 8 * widths[group.leader] ** 2
        if not rounds or size > room:
            rounds.append([])
            room = memory
        rounds[-1].append(group)
        room -= size
    return rounds


class Grams(Mapping[str, "Tensor"]):
    """By the key of a layer's weight the float64 sum of its inputs' products; made when it is asked for.

    Asked for in order, each round is made once, and let go when the next one is. Layers with one input stand under
    the first of them; `tied` tells the others.
    """

    def __init__(
        self,
        rounds: Sequence[Sequence[Group]],
        widths: Mapping[str, int],
        collect: Callable[[Sequence[Group]], dict[str, Tensor]],
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
