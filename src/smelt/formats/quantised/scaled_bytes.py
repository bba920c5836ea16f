"""One byte for a number: 8-bit floats and whole numbers with scales for a tensor, a row, a group or a block.

Who writes them                       names of scales               what they go over
DeepSeek, Qwen (`fp8`)                weight_scale_inv              blocks of 128 by 128; a factor, despite the name
MXFP8                                 weight_scale_inv, bytes       groups of 32; a power of two
compressed-tensors, modelopt, fbgemm  weight_scale                  a tensor, rows, groups, blocks
Mistral, ComfyUI                      qscale_weight, scale_weight   a tensor

Bytes with powers of two over groups of 32 may be pairs of 4-bit floats: experts of DeepSeek's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.formats.quantised.coding import ScaledCodes
from smelt.formats.quantised.grid import grid_of, matrices_of
from smelt.formats.quantised.kernels import CodeKind
from smelt.formats.quantised.scales import StoredScales, check_floats
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["scaled_bytes"]

_KINDS: dict[str, CodeKind] = {"F8_E4M3": "e4m3", "F8_E5M2": "e5m2", "I8": "int8"}
_WEIGHT = "weight"
_BESIDE = ("scale_weight", "qscale_weight", "scale")
"""Names of scales in place of `weight`."""
_AFTER = ("_scale_inv", "_scale")
"""What names of scales have after that of the codes."""
_EXPONENTS = ("F8_E8M0", "U8")


def scaled_bytes(
    tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> Mapping[str, Coding]:
    """Every tensor of bytes with scales beside it."""
    found: dict[str, Coding] = {}
    for key, info in tensors.items():
        if info.dtype in _KINDS and info.count and (scales := _scales_of(key, tensors)):
            found[key] = _coding(key, info, scales, tensors, settings)
    return found


def _scales_of(key: str, tensors: Mapping[str, TensorInfo]) -> str | None:
    candidates = [key + end for end in _AFTER]
    if key.endswith(_WEIGHT):
        candidates += [key.removesuffix(_WEIGHT) + name for name in _BESIDE]
    return next((name for name in candidates if name in tensors), None)


def _coding(
    key: str,
    info: TensorInfo,
    scales: str,
    tensors: Mapping[str, TensorInfo],
    settings: QuantisationSettings,
) -> ScaledCodes:
    kind, shape, exponents = _KINDS[info.dtype], info.shape, tensors[scales].dtype in _EXPONENTS
    if exponents and info.dtype == "I8":
        kind, shape = "e2m1", (*shape[:-1], 2 * shape[-1])
    if not exponents:
        check_floats(scales, tensors[scales], settings)
    grid = grid_of(settings, key, shape, scales, tensors[scales].shape, None if exponents else settings.block_size)
    sides = (grid.rows, grid.columns)
    zeros = f"{key}_zero_point" if f"{key}_zero_point" in tensors else None
    if zeros is not None and tensors[zeros].shape != tensors[scales].shape:
        raise settings.fault(f"{zeros!r} is {tensors[zeros].shape} but its scales {tensors[scales].shape}")
    own = matrices_of(shape)
    return ScaledCodes(
        TensorInfo(settings.dtype, shape),
        key,
        kind,
        own.rows,
        own.columns,
        StoredScales(scales, sides, grid.per_matrix, exponents),
        grid.block,
        StoredScales(zeros, sides, grid.per_matrix) if zeros is not None else None,
    )


schemes["scaled_bytes"] = scaled_bytes
