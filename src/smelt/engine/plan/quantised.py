"""Models whose weights are codes, not numbers: refused, whatever the recipe says.

A config says it (`quantization_config`); where it does not, the tensors do: codes have scales beside them. Without this
check codes would be copied from the reference like any integers, and experts would silently be left out of a merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from smelt.formats import dtype as dtypes
from smelt.formats.config import read_config
from smelt.formats.safetensors.header import TensorInfo
from smelt.models.pool import ModelPool

__all__ = ["quantised_faults"]

_CODES = dtypes.FP8 | {"U8", "I8", "U16", "I16", "U32", "I32"}
_ENDS = ("", ".weight", "_blocks", ".qweight", ".weight_packed", "._data", ".W_q", ".codes")
"""How names of codes end: FP8, bitsandbytes and EETQ, MXFP4, GPTQ and AWQ, compressed-tensors, quanto, HQQ, AQLM."""
_SCALES = ("_scale_inv", "_scale", "_scales", ".scale", ".scales", ".absmax", ".SCB", ".weight_scale", "._scale")
"""What the names of their scales have instead."""


def quantised_faults(pool: ModelPool) -> list[str]:
    """A sentence for each model that is quantised."""
    faults = []
    for name, source in pool.all.items():
        if (read_config(source.folder) or {}).get("quantization_config"):
            faults.append(
                f"{name} is quantised (its config.json has a quantization_config): its weights are codes, not numbers; "
                "merge a dequantised copy"
            )
        elif found := _codes(source.tensors):
            faults.append(
                f"{name}: {found[0]!r} is quantised with {found[1]!r}; merge a dequantised copy of the model instead"
            )
    return faults


def _codes(tensors: Mapping[str, TensorInfo]) -> tuple[str, str] | None:
    """The first tensor that has scales beside it, and their name."""
    for key, info in tensors.items():
        if info.dtype in _CODES:
            stems = (key.removesuffix(end) for end in _ENDS if key.endswith(end))
            scales = (stem + scale for stem, scale in product(stems, _SCALES))
            if found := next((scale for scale in scales if scale in tensors and scale != key), None):
                return key, found
    return None
