"""Floats of 4 bits, two in a byte, in groups that share a scale: NVFP4 and MXFP4 as several libraries write them.

Who writes them                codes                      scales                          over the whole tensor
compressed-tensors, NVFP4      weight_packed [r, c / 2]   weight_scale, float8 [r, c/16]  weight_global_scale, a divisor
modelopt, NVFP4                weight [r, c / 2]          weight_scale, float8 [r, c/16]  weight_scale_2, a factor
compressed-tensors, MXFP4      weight_packed [r, c / 2]   weight_scale, powers [r, c/32]  -
gpt-oss, MXFP4                 NAME_blocks [e, r, g, 16]  NAME_scales, powers [e, r, g]   -

gpt-oss stores experts as [experts, out, in]; the model computes with [experts, in, out], which is what is offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.formats.quantised.coding import ScaledCodes
from smelt.formats.quantised.grid import grid_of, matrices_of
from smelt.formats.quantised.scales import StoredScales
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["packed_floats"]

_BLOCKS, _SCALES = "_blocks", "_scales"
_FLOAT8, _POWERS = ("F8_E4M3",), ("U8", "F8_E8M0")
_CODES = ("weight_packed", "weight")


def packed_floats(
    tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> Mapping[str, Coding]:
    """Every tensor of such bytes."""
    found: dict[str, Coding] = {}
    for key, info in tensors.items():
        if info.dtype != "U8" or not info.count:
            continue
        if key.endswith(_BLOCKS) and len(info.shape) >= 3:
            found[key.removesuffix(_BLOCKS)] = _experts(key, tensors, settings)
        elif (name := key.rpartition(".")[2]) in _CODES:
            module = key.removesuffix(name)
            scales = tensors.get(f"{module}weight_scale")
            if scales is not None and scales.dtype in (*_FLOAT8, *_POWERS):
                found[f"{module}weight"] = _grouped(key, module, tensors, settings)
    return found


def _grouped(key: str, module: str, tensors: Mapping[str, TensorInfo], settings: QuantisationSettings) -> ScaledCodes:
    """Codes and scales as they lie side by side."""
    scales, whole = f"{module}weight_scale", None
    shape = (*tensors[key].shape[:-1], 2 * tensors[key].shape[-1])
    factor, divisor = f"{module}weight_scale_2", f"{module}weight_global_scale"
    if tensors[scales].dtype in _FLOAT8:
        whole = next((name for name in (factor, divisor) if name in tensors), None)
        if whole is None:
            raise settings.fault(f"{key!r} has neither {factor!r} nor {divisor!r} beside it; the file is incomplete")
        if tensors[whole].dtype != "F32" or tensors[whole].count not in (1, matrices_of(shape).count):
            raise settings.fault(f"{whole!r} is {tensors[whole].dtype} {tensors[whole].shape}, not one float32")
    grid = grid_of(settings, key, shape, scales, tensors[scales].shape)
    own = matrices_of(shape)
    return ScaledCodes(
        TensorInfo(settings.dtype, shape),
        key,
        "e2m1",
        own.rows,
        own.columns,
        StoredScales(
            scales,
            (grid.rows, grid.columns),
            grid.per_matrix,
            exponents=tensors[scales].dtype in _POWERS,
            whole=whole,
            whole_is="factor" if whole == factor else "divisor",
        ),
        grid.block,
    )


def _experts(key: str, tensors: Mapping[str, TensorInfo], settings: QuantisationSettings) -> ScaledCodes:
    """Experts of gpt-oss, turned."""
    scales, shape = key.removesuffix(_BLOCKS) + _SCALES, tensors[key].shape
    if scales not in tensors:
        raise settings.fault(f"{key!r} has no {scales!r} beside it; the file is incomplete")
    if tensors[scales].dtype not in _POWERS or tensors[scales].shape != shape[:-1]:
        raise settings.fault(f"{scales!r} is {tensors[scales].dtype} {tensors[scales].shape}, not U8 {shape[:-1]}")
    *before, rows, groups, half = shape
    columns = groups * half * 2
    return ScaledCodes(
        TensorInfo(settings.dtype, (*before, columns, rows)),
        key,
        "e2m1",
        rows,
        columns,
        StoredScales(scales, (rows, groups), exponents=True),
        (1, half * 2),
        turned=True,
    )


schemes["packed_floats"] = packed_floats
