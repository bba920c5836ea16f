"""bitsandbytes: 4-bit codes in blocks over the whole tensor (nf4, fp4), and bytes with a scale for each row (int8).

4 bits   `weight` has two codes in a byte, the upper half first, stored as any type. `weight.absmax` has a scale for
         each block, or the code of one (double quantisation: `weight.nested_absmax`, `weight.nested_quant_map`).
         `weight.quant_state.bitsandbytes__nf4` is JSON as bytes: shape, dtype, size of blocks.
8 bits   `weight` is I8 [out, in], `SCB` the largest magnitude of each row: a number is code * SCB / 127.

Dettmers et al. 2022, arXiv:2208.07339, and 2023, arXiv:2305.14314. The arithmetic is that of the library on a CPU, so
that its `dequantize_4bit` gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from smelt.formats.quantised.bitsandbytes_state import QuantState, read_state
from smelt.formats.quantised.code_tables import NIBBLES
from smelt.formats.quantised.coding import ScaledCodes
from smelt.formats.quantised.scales import NestedScales, Scales, StoredScales, check_floats, read_array
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["bitsandbytes"]

_STATE = ".quant_state.bitsandbytes__"
_ABSMAX = ".absmax"
_SCB = "SCB"
_LAYOUTS = ("row", "col32", "col_turing", "col_ampere")
"""What `weight_format` counts; all but the first were orders for one kind of GPU, which no release writes any more."""


def bitsandbytes(
    tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> Mapping[str, Coding]:
    """Every tensor with a `quant_state` or an `SCB`."""
    states = [key for key in tensors if _STATE in key]
    found: dict[str, Coding] = {}
    for state in states:
        weight = state.partition(_STATE)[0]
        if weight in found:
            raise settings.fault(f"{weight!r} has two states, {state!r} is one of them; remove the stale one")
        found[weight] = _four_bits(weight, state, tensors, stored, settings)
    for key in tensors:
        weight = key.removesuffix(_ABSMAX)
        if weight != key and weight in tensors and weight not in found and f"{weight}.quant_map" in tensors:
            raise settings.fault(
                f"{weight!r} has no {weight + _STATE}nf4, which says its shape; the file is incomplete"
            )
        module = key.removesuffix(_SCB)
        if module != key and module.endswith("."):
            found[f"{module}weight"] = _int8(module, tensors, stored, settings)
    if found:
        settings.check_order_of_axes()
    return found


def _four_bits(
    weight: str, key: str, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> ScaledCodes:
    state = read_state(key, tensors[key], stored, settings)
    size = -(-state.count // 2)
    if weight not in tensors or tensors[weight].nbytes != size:
        there = f"{tensors[weight].nbytes:,} bytes" if weight in tensors else "not there"
        raise settings.fault(f"{weight!r} is {there}, but {key!r} says {state.shape}, which takes {size:,} bytes")
    _check_table(weight, state, tensors, stored, settings)
    # Blocks run over the whole tensor. Where they do not end with its rows, each is taken for a row.
    columns = state.shape[-1] if state.shape[-1] % state.blocksize == 0 else state.blocksize
    rows = -(-state.count // columns)
    return ScaledCodes(
        TensorInfo(state.dtype, state.shape),
        weight,
        state.kind,
        rows,
        columns,
        _scales(weight, (rows, columns // state.blocksize), state, tensors, settings),
        (1, state.blocksize),
        high_first=True,
        format=f"{state.kind} of bitsandbytes" + " with quantised scales" * (state.nested is not None),
        shared=str(state.blocksize),
        unused=tuple(name for name in (key, f"{weight}.quant_map") if name in tensors),
    )


def _check_table(
    weight: str, state: QuantState, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> None:
    """The library works with the table of the state's name; a file may hold it rounded, but not another one."""
    name = f"{weight}.quant_map"
    if name not in tensors:
        return
    check_floats(name, tensors[name], settings)
    known = NIBBLES[state.kind]
    if tensors[name].count != known.size or not np.allclose(read_array(stored, name, 0, known.size), known, 1 / 256, 0):
        raise settings.unread(f"{name!r} is not the table of {state.kind}")


def _scales(
    weight: str,
    grid: tuple[int, int],
    state: QuantState,
    tensors: Mapping[str, TensorInfo],
    settings: QuantisationSettings,
) -> Scales:
    absmax, blocks = weight + _ABSMAX, math.prod(grid)
    _check_count(absmax, blocks, f"{weight!r} has {blocks:,} blocks of {state.blocksize}", tensors, settings)
    if state.nested is None:
        check_floats(absmax, tensors[absmax], settings)
        return StoredScales(absmax, grid)
    if tensors[absmax].dtype != "U8":
        raise settings.fault(f"{absmax!r} is {tensors[absmax].dtype}; quantised scales are U8")
    outer, table = f"{weight}.nested_absmax", f"{weight}.nested_quant_map"
    count = -(-blocks // state.nested.blocksize)
    _check_count(outer, count, f"{blocks:,} scales are {count:,} blocks of {state.nested.blocksize}", tensors, settings)
    _check_count(table, 256, "a scale is the code of one of 256 numbers", tensors, settings)
    for name in (outer, table):
        check_floats(name, tensors[name], settings)
    return NestedScales(absmax, grid[1], outer, table, state.nested.blocksize, state.nested.offset)


def _check_count(
    name: str, count: int, why: str, tensors: Mapping[str, TensorInfo], settings: QuantisationSettings
) -> None:
    if name not in tensors:
        raise settings.fault(f"{name!r} is not there; the file is incomplete")
    if tensors[name].count != count:
        raise settings.fault(f"{name!r} has {tensors[name].count:,} numbers where {count:,} are expected: {why}")


def _int8(
    module: str, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> ScaledCodes:
    weight, scales, layout = f"{module}weight", f"{module}{_SCB}", f"{module}weight_format"
    info = tensors.get(weight)
    if info is None or info.dtype != "I8" or len(info.shape) != 2:
        there = f"{info.dtype} {info.shape}" if info is not None else "not there"
        raise settings.fault(f"{weight!r} is {there} where {scales!r} asks for a matrix of I8")
    rows, columns = info.shape
    check_floats(scales, tensors[scales], settings)
    _check_count(scales, rows, f"one for each row of {weight!r}", tensors, settings)
    if layout in tensors:
        number = int(read_array(stored, layout, 0, 1)[0]) if tensors[layout].count == 1 else -1
        if number != 0:
            name = _LAYOUTS[number] if 0 < number < len(_LAYOUTS) else f"of the unknown number {number}"
            raise settings.unread(f"{weight!r} is in the layout {name} ({layout!r}), {_LAYOUTS[0]} is read")
    return ScaledCodes(
        TensorInfo(settings.dtype, info.shape),
        weight,
        "int8",
        rows,
        columns,
        StoredScales(scales, (rows, 1)),
        (1, columns),
        factor=1 / 127,
        format="int8 of bitsandbytes",
        unused=(layout,) if layout in tensors else (),
    )


schemes["bitsandbytes"] = bitsandbytes
