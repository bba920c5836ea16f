"""The change of one layer from the parts that an adapter's file has of it, checked against the layer's shape.

In: the layer's parts by what they are (`up`, `hada_w1_a`, ...), their shapes, the shape of the layer's weight, and what
says the scaling for a rank. Out: a `Change`, or `PartsError` with what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from smelt.formats import dtype as dtypes
from smelt.formats.lora.changes import Change, Full, Hadamard, Kronecker, LowRank, Product, Stored
from smelt.formats.source import TensorInfo

__all__ = ["PartsError", "ScalingOf", "Shape", "change_of", "kind_of"]

Shape: TypeAlias = tuple[int, ...]
ScalingOf: TypeAlias = Callable[[int], float]
"""Is given the rank; 0 for two whole matrices, which have none."""

_KINDS = {
    "LoHa": ({"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"}, {"hada_t1", "hada_t2"}),
    "LoKr": (set(), {"lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2"}),
    "full": ({"diff"}, set()),
    "LoRA": ({"up", "down"}, {"mid"}),
}
"""The parts that each kind must and may have."""


class PartsError(Exception):
    """The parts of a layer do not make a change of it."""


def kind_of(parts: Mapping[str, object]) -> str:
    """What the parts of a layer are: LoRA, LoHa, LoKr or full."""
    for kind, (needed, possible) in _KINDS.items():
        if parts.keys() & (needed | possible):
            return kind
    return "none"


def change_of(parts: Mapping[str, str], infos: Mapping[str, TensorInfo], shape: Shape, scaling: ScalingOf) -> Change:
    """`parts` are names in the adapter; `infos` its header; `shape` that of the weight, the rows of all segments."""
    kind = kind_of(parts)
    needed, possible = _KINDS.get(kind, (set(), set()))
    if lacking := sorted(needed - parts.keys()):
        raise PartsError(f"has {_listed(parts)} but no {lacking[0]}")
    if extra := sorted(parts.keys() - needed - possible):
        raise PartsError(
            f"has {extra[0]} beside {_listed(needed | (possible & parts.keys()))}, which is no {kind} layer"
        )
    shapes = {part: infos[name].shape for part, name in parts.items()}
    if odd := next((part for part, name in parts.items() if infos[name].dtype not in dtypes.FLOATS), None):
        raise PartsError(f"{odd} is {infos[parts[odd]].dtype}; floating point is expected")
    if kind == "full":
        _expect("diff", _plain(shapes["diff"]), shape)
        return Full(Stored(parts["diff"], _thinner(shape)))
    if kind == "LoHa":
        return _hadamard(parts, shapes, shape, scaling)
    if kind == "LoKr":
        return _kronecker(parts, shapes, shape, scaling)
    product, made = _product(parts, shapes, ("up", "down", "mid"), up_first=True)
    _expect("up and down", made, shape)
    return LowRank(product, scaling(product.rank))


def _hadamard(parts: Mapping[str, str], shapes: Mapping[str, Shape], shape: Shape, scaling: ScalingOf) -> Change:
    if ("hada_t1" in parts) != ("hada_t2" in parts):
        raise PartsError("has one of hada_t1 and hada_t2 and not the other")
    products = []
    for number in "12":
        words = (f"hada_w{number}_a", f"hada_w{number}_b", f"hada_t{number}")
        product, made = _product(parts, shapes, words, up_first="hada_t1" not in parts)
        _expect(f"hada_w{number}", made, shape)
        products.append(product)
    return Hadamard(products[0], products[1], scaling(products[0].rank))


def _kronecker(parts: Mapping[str, str], shapes: Mapping[str, Shape], shape: Shape, scaling: ScalingOf) -> Change:
    first, first_shape = _side(parts, shapes, ("lokr_w1", "lokr_w1_a", "lokr_w1_b"), None)
    second, second_shape = _side(parts, shapes, ("lokr_w2", "lokr_w2_a", "lokr_w2_b"), "lokr_t2")
    if len(first_shape) != 2 or len(second_shape) < 2:
        raise PartsError(f"lokr_w1 {first_shape} and lokr_w2 {second_shape} are no matrices")
    made = (first_shape[0] * second_shape[0], first_shape[1] * second_shape[1], *second_shape[2:])
    _expect(f"lokr_w1 {first_shape} and lokr_w2 {second_shape}", made, shape)
    ranks = [side.rank for side in (second, first) if isinstance(side, Product)]
    return Kronecker(first, second, scaling(ranks[0] if ranks else 0))


def _side(
    parts: Mapping[str, str], shapes: Mapping[str, Shape], words: tuple[str, str, str], core: str | None
) -> tuple[Product | Stored, Shape]:
    stored, up, down = words
    if stored in parts:
        if {up, down} & parts.keys():
            raise PartsError(f"has {stored} whole and in factors")
        return Stored(parts[stored], _thinner(shapes[stored])), shapes[stored]
    if not {up, down} <= parts.keys():
        raise PartsError(f"has {_listed(parts)} but no {stored}, whole or in two factors")
    tucker = core is not None and core in parts
    return _product(parts, shapes, (up, down, core or ""), up_first=not tucker)


def _product(
    parts: Mapping[str, str], shapes: Mapping[str, Shape], words: tuple[str, str, str], *, up_first: bool
) -> tuple[Product, Shape]:
    """The product of two factors, with a core between them if there is one, and the shape that it makes."""
    up, down, core = words
    above, below = shapes[up], shapes[down]
    if len(above) < 2 or len(below) < 2 or set(above[2:]) - {1}:
        raise PartsError(f"{up} {above} and {down} {below} are no two factors")
    rows, rank = (above[0], above[1]) if up_first else (above[1], above[0])
    inside, made = below[0], (rows, *below[1:])
    if core in parts:
        middle = shapes[core]
        if len(middle) < 2 or middle[:2] != (rank, below[0]) or set(below[2:]) - {1}:
            raise PartsError(f"{core} {middle} does not stand between {up} {above} and {down} {below}")
        inside, made = middle[0], (rows, below[1], *middle[2:])
    if rank != inside or rank < 1:
        raise PartsError(f"{up} {above} and {down} {below} have no rank in common")
    return Product(parts[up], parts[down], rank, parts.get(core), up_first), made


def _expect(what: str, made: Shape, shape: Shape) -> None:
    """The same axes, or the same matrix: kernels of one number and flattened kernels are written in several ways."""
    if _plain(made) == _plain(shape):
        return
    if len(made) == 2 and made[0] == shape[0] and made[1] == math.prod(shape[1:]):
        return
    raise PartsError(f"{what} make a change of shape {made}, but the layer is {shape}")


def _plain(shape: Shape) -> Shape:
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _thinner(shape: Shape) -> int:
    return min(shape[0], math.prod(shape[1:])) if shape else 1


def _listed(parts: Mapping[str, object] | set[str]) -> str:
    return " and ".join(sorted(parts))
