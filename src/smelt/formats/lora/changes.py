"""What adapters add to one tensor, worked out from a few small matrices, some rows at a time.

    low rank     up @ down, with a core between them for convolutions (LoCon's `lora_mid`, Tucker)
    Hadamard     the product of two low-rank matrices, element by element (LoHa)
    Kronecker    kron(w1, w2), each stored whole or as a low-rank product (LoKr)
    stacked      one low-rank product for each expert of a stack (PEFT's `target_parameters`)
    full         the change itself

A tensor is seen as a matrix here: its first axis is the rows, all others together are the columns. A change names the
adapter's tensors; `load` reads them, once for many tiles, and `tile` gives rows of the change in float32, with the
scaling. Rows that are asked for in the same ranges have the same bits each time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Change", "Factors", "Full", "Hadamard", "Kronecker", "LowRank", "Product", "Reader", "Stacked", "Stored"]

Reader: TypeAlias = "Callable[[str], Tensor]"
"""Gives one of the adapter's tensors, in float32."""
Factors: TypeAlias = "tuple[Tensor, ...]"


@dataclass(frozen=True, slots=True)
class Product:
    """`up @ down` as a matrix; names in the adapter."""

    up: str
    down: str
    rank: int
    mid: str | None = None
    """The core of a Tucker product [rank, rank, ...], between up and down."""
    up_first: bool = True
    """Stored as [rows, rank]; else as [rank, rows], as the Tucker products of LoHa and LoKr are."""
    swapped: bool = False
    """The base stores (input, output), as embeddings and GPT-2's Conv1D do: the product is transposed."""

    def factors(self, read: Reader) -> tuple[Tensor, Tensor]:
        """[rows, rank] and [rank, columns]."""
        import torch

        up, down = read(self.up), read(self.down)
        left = up.reshape(up.shape[0], -1) if self.up_first else up.t()
        right = down.reshape(down.shape[0], -1)
        if self.mid is not None:
            right = torch.einsum("ij...,jc->ic...", read(self.mid), right).reshape(self.rank, -1)
        pair = (right.t(), left.t()) if self.swapped else (left, right)
        return pair[0].contiguous(), pair[1].contiguous()

    def matrix(self, read: Reader) -> Tensor:
        left, right = self.factors(read)
        return left @ right


@dataclass(frozen=True, slots=True)
class Stored:
    """A matrix that the adapter holds whole."""

    name: str
    rank: int
    """The most it can have: its shorter side."""

    def factors(self, read: Reader) -> tuple[Tensor, Tensor]:
        """The matrix and one, in the order that makes the thinner pair."""
        import torch

        whole = self.matrix(read)
        if whole.shape[0] > whole.shape[1]:
            return whole, torch.eye(whole.shape[1])
        return torch.eye(whole.shape[0]), whole

    def matrix(self, read: Reader) -> Tensor:
        whole = read(self.name)
        return whole.reshape(whole.shape[0] if whole.dim() else 1, -1)


class Change(ABC):
    """One change of a whole matrix."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The adapter's tensors that it is made of."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank that it has at most."""

    @abstractmethod
    def load(self, read: Reader) -> Factors:
        """What `tile` needs."""

    @abstractmethod
    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        """Rows from `first` to before `last`, [rows, columns]; the caller's own to change."""

    @abstractmethod
    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        """Two factors [rows, rank] and [rank, columns] whose product is the whole change, without loss."""


def _product_names(product: Product | Stored) -> tuple[str, ...]:
    if isinstance(product, Stored):
        return (product.name,)
    return (product.up, product.down, *((product.mid,) if product.mid is not None else ()))


@dataclass(frozen=True, slots=True)
class LowRank(Change):
    product: Product
    scaling: float

    @property
    def names(self) -> tuple[str, ...]:
        return _product_names(self.product)

    @property
    def rank(self) -> int:
        return self.product.rank

    def load(self, read: Reader) -> Factors:
        """Scaling the small factor costs nothing, and unlike a scaling fused into the product it rounds the same in
        every tile.
        """
        left, right = self.product.factors(read)
        return left * self.scaling, right

    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        return factors[0][first:last] @ factors[1]

    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        left, right = self.load(read)
        return left, right


@dataclass(frozen=True, slots=True)
class Hadamard(Change):
    first: Product
    second: Product
    scaling: float

    @property
    def names(self) -> tuple[str, ...]:
        return (*_product_names(self.first), *_product_names(self.second))

    @property
    def rank(self) -> int:
        return self.first.rank * self.second.rank

    def load(self, read: Reader) -> Factors:
        left, right = self.first.factors(read)
        return left * self.scaling, right, *self.second.factors(read)

    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        left, right, other_left, other_right = factors
        return (left[first:last] @ right).mul_(other_left[first:last] @ other_right)

    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        """(sum_i a_i b_i) * (sum_j c_j d_j) is the sum over all pairs of (a_i * c_j) (b_i * d_j)."""
        left, right, other_left, other_right = self.load(read)
        return (
            (left[:, :, None] * other_left[:, None, :]).flatten(1),
            (right[:, None, :] * other_right[None, :, :]).flatten(0, 1),
        )


@dataclass(frozen=True, slots=True)
class Kronecker(Change):
    first: Product | Stored
    second: Product | Stored
    scaling: float

    @property
    def names(self) -> tuple[str, ...]:
        return (*_product_names(self.first), *_product_names(self.second))

    @property
    def rank(self) -> int:
        return self.first.rank * self.second.rank

    def load(self, read: Reader) -> Factors:
        return self.first.matrix(read) * self.scaling, self.second.matrix(read)

    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        """Row i of the product is row i // n of the first times row i % n of the second, which has n rows."""
        import torch

        one, other = factors
        rows = torch.arange(first, last)
        return (one[rows // len(other)][:, :, None] * other[rows % len(other)][:, None, :]).flatten(1)

    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        left, right = self.first.factors(read)
        other_left, other_right = self.second.factors(read)
        return _kron(left * self.scaling, other_left), _kron(right, other_right)


def _kron(one: Tensor, other: Tensor) -> Tensor:
    return (one[:, None, :, None] * other[None, :, None, :]).flatten(2).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Stacked(Change):
    """For each expert a product of its own; the matrices of all lie one below the other."""

    a: str
    """[experts * rank, inputs]"""
    b: str
    """[outputs, rank * experts]: the experts are the inner axis."""
    experts: int
    rank_of_each: int
    scaling: float
    transposed: bool
    """Each expert is stored as [inputs, outputs]."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.a, self.b

    @property
    def rank(self) -> int:
        return self.experts * self.rank_of_each

    def load(self, read: Reader) -> Factors:
        a, b = read(self.a), read(self.b)
        right = a.reshape(self.experts, self.rank_of_each, -1)
        left = b.reshape(len(b), self.rank_of_each, self.experts).permute(2, 0, 1) * self.scaling
        return (right.mT.contiguous(), left.mT.contiguous()) if self.transposed else (left.contiguous(), right)

    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        import torch

        left, right = factors
        side = left.shape[1]
        parts = []
        for expert in range(first // side, -(-last // side)):
            low, high = max(first - expert * side, 0), min(last - expert * side, side)
            parts.append(left[expert, low:high] @ right[expert])
        return torch.cat(parts)

    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        left, right = self.load(read)
        rows, rank = left.shape[1:]
        apart = left.new_zeros(self.experts * rows, self.experts * rank)
        for expert, matrix in enumerate(left):
            apart[expert * rows :][:rows, expert * rank :][:, :rank] = matrix
        return apart, right.flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Full(Change):
    stored: Stored
    scaling: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return (self.stored.name,)

    @property
    def rank(self) -> int:
        return self.stored.rank

    def load(self, read: Reader) -> Factors:
        return (self.stored.matrix(read) * self.scaling,)

    def tile(self, factors: Factors, first: int, last: int) -> Tensor:
        return factors[0][first:last].clone()

    def thin(self, read: Reader) -> tuple[Tensor, Tensor]:
        left, right = self.stored.factors(read)
        return left * self.scaling, right
