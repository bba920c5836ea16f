"""What an adapter does to one tensor of its base: changes that are added, and the few other things adapters do.

An `AdapterPlan` holds a list of these for every tensor that changes. Each is given whole rows of the tensor as a matrix
(see `changes.py`), in float32 or better, and leaves them as they become.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from smelt.formats.lora.changes import Change

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Added", "Context", "Directed", "Edit", "Rescaled", "RowsReplaced"]


class Context(Protocol):
    """What an edit may ask for while a tensor is read."""

    def tile(self, change: Change, first: int, last: int) -> Tensor:
        """Rows of a change."""

    def held(self, name: str) -> Tensor:
        """One of the adapter's small tensors in float32, kept; read only."""

    def input_lengths(self, key: str, added: Added, inputs: int) -> Tensor:
        """The length of the weights of every input, in the base's tensor with this change."""


@dataclass(frozen=True, slots=True)
class Added:
    """A change, or some rows of it, added to rows of a tensor.

    Layers that one side stores apart and the other as one (query, key and value) meet in rows.
    """

    change: Change
    count: int
    """How many rows."""
    at: int = 0
    """The first of them in the tensor,"""
    start: int = 0
    """and in the change."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.change.names

    def apply(self, key: str, values: Tensor, row: int, context: Context) -> None:
        """`values` [rows, columns] are those of the tensor `key` from `row` on."""
        low, high = max(row, self.at), min(row + len(values), self.at + self.count)
        if low < high:
            shift = self.start - self.at
            values[low - row : high - row].add_(context.tile(self.change, low + shift, high + shift))


@dataclass(frozen=True, slots=True)
class Directed:
    """DoRA: the sum of base and change gives the direction; the length of each output's weights is learned."""

    added: Added
    magnitude: str
    """One number for each of the change's rows, or for each input."""
    by_input: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.added.names, self.magnitude)

    def apply(self, key: str, values: Tensor, row: int, context: Context) -> None:
        self.added.apply(key, values, row, context)
        magnitude = context.held(self.magnitude).reshape(-1)
        if self.by_input:
            inputs = len(magnitude)  # each has one column, or those of its kernel
            factors = magnitude / context.input_lengths(key, self.added, inputs)
            values.view(len(values), inputs, -1).mul_(factors[:, None])
            return
        at, count = self.added.at, self.added.count
        low, high = max(row, at), min(row + len(values), at + count)
        if low < high:
            ours, shift = values[low - row : high - row], self.added.start - at
            ours.mul_((magnitude[low + shift : high + shift] / ours.norm(dim=1)).unsqueeze(1))


@dataclass(frozen=True, slots=True)
class Rescaled:
    """IA3: every row, or every column, times a number."""

    name: str
    by_column: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def apply(self, key: str, values: Tensor, row: int, context: Context) -> None:
        numbers = context.held(self.name).reshape(-1)
        values.mul_(numbers if self.by_column else numbers[row : row + len(values)].unsqueeze(1))


@dataclass(frozen=True, slots=True)
class RowsReplaced:
    """Rows of an embedding that were trained; the last of two for one row counts."""

    name: str
    rows: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def apply(self, key: str, values: Tensor, row: int, context: Context) -> None:
        for number, place in enumerate(self.rows):
            if row <= place < row + len(values):
                values[place - row].copy_(context.held(self.name)[number])


Edit: TypeAlias = Added | Directed | Rescaled | RowsReplaced
