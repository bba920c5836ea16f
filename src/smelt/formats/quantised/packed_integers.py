"""Whole numbers of 4 or 8 bits packed into words, row after row: `pack-quantized` of compressed-tensors.

`weight_packed` [rows, columns * bits / 32] holds codes from the lowest bits of a word up, with half of their range
added. `weight_shape` says how many columns there are, `weight_scale` goes over groups or rows, `weight_zero_point` is
packed likewise, along rows. `weight_g_idx` has the group of each column where columns were quantised out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.formats.quantised.coding import ScaledCodes
from smelt.formats.quantised.grid import Grid, grid_of, matrices_of
from smelt.formats.quantised.kernels import CodeKind
from smelt.formats.quantised.scales import PackedZeros, Scales, StoredScales, check_floats, read_whole_numbers
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["packed_integers"]

_PACKED = "weight_packed"
_KINDS: dict[int, CodeKind] = {4: "int4", 8: "centred8"}
_WORD = 32


def packed_integers(
    tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> Mapping[str, Coding]:
    """Every module with a `weight_packed` of words."""
    modules = [
        key.removesuffix(_PACKED) for key, info in tensors.items() if key.endswith(_PACKED) and info.dtype == "I32"
    ]
    return {f"{module}weight": _coding(module, tensors, stored, settings) for module in modules}


def _coding(
    module: str, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> ScaledCodes:
    packed, scales, zeros = f"{module}{_PACKED}", f"{module}weight_scale", f"{module}weight_zero_point"
    if scales not in tensors:
        raise settings.fault(f"{packed!r} has no {scales!r} beside it; the file is incomplete")
    check_floats(scales, tensors[scales], settings)
    shape = _shape(module, tensors, stored, settings)
    own = matrices_of(shape)
    bits = tensors[packed].shape[-1] * _WORD // own.columns
    if bits not in _KINDS:
        raise settings.unread(f"{packed!r} has {bits} bits for a number; 4 and 8 are read")
    if own.columns * bits % _WORD:
        raise settings.unread(f"{packed!r} has {own.columns} numbers in a row, which do not fill whole words")
    grid = grid_of(settings, packed, shape, scales, tensors[scales].shape)
    order = f"{module}weight_g_idx"
    if order in tensors and tensors[order] != TensorInfo("I32", (own.columns,)):
        raise settings.fault(f"{order!r} is {tensors[order].dtype} {tensors[order].shape}, not I32 ({own.columns},)")
    return ScaledCodes(
        TensorInfo(settings.dtype, shape),
        packed,
        _KINDS[bits],
        own.rows,
        own.columns,
        StoredScales(scales, (grid.rows, grid.columns), grid.per_matrix),
        grid.block,
        _zeros(zeros, tensors, grid, bits, settings) if zeros in tensors else None,
        order=order if order in tensors else None,
        unused=(f"{module}weight_shape",),
    )


def _shape(
    module: str, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> tuple[int, ...]:
    """The shape of the weight, which its packed rows must agree with."""
    name, packed = f"{module}weight_shape", tensors[f"{module}{_PACKED}"].shape
    if name not in tensors or tensors[name].count != len(packed) or tensors[name].dtype not in ("I64", "I32"):
        raise settings.fault(f"{module}{_PACKED!r} has no {name!r} that says how many columns it has")
    shape = tuple(int(size) for size in read_whole_numbers(stored, name))
    per_word = [_WORD // bits for bits in _KINDS]
    if shape[:-1] != packed[:-1] or not any(-(-shape[-1] // each) == packed[-1] for each in per_word):
        raise settings.unread(f"{module}{_PACKED} is {packed}, which is not {shape} in 4 or 8 bits")
    return shape


def _zeros(
    name: str, tensors: Mapping[str, TensorInfo], grid: Grid, bits: int, settings: QuantisationSettings
) -> Scales:
    if tensors[name].dtype != "I32":
        return StoredScales(name, (grid.rows, grid.columns), grid.per_matrix)
    words = -(-grid.rows * bits // _WORD)
    if tensors[name].shape[-2:] != (words, grid.columns):
        raise settings.fault(f"{name!r} is {tensors[name].shape} where {(words, grid.columns)} is expected")
    return PackedZeros(name, (grid.rows, grid.columns), bits, 1 << bits - 1)


schemes["packed_integers"] = packed_integers
