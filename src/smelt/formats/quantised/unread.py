"""Quantised weights that nobody reads, told from names and types: codes have scales beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from smelt.formats import dtype as dtypes
from smelt.formats.source import TensorInfo

__all__ = ["codes_and_scales", "is_of_activations", "may_be_codes"]

_CODES = dtypes.FP8 | {"U8", "I8", "U16", "I16", "U32", "I32"}
_ENDS = ("", ".weight", "_blocks", ".qweight", ".weight_packed", "._data", ".W_q", ".codes")
"""How names of codes end: FP8, bitsandbytes and EETQ, MXFP4, GPTQ and AWQ, compressed-tensors, quanto, HQQ, AQLM."""
_SCALES = ("_scale_inv", "_scale", "_scales", ".scale", ".scales", ".absmax", ".SCB", ".weight_scale", "._scale")
"""What the names of their scales have instead."""

_OF_ACTIVATIONS = re.compile(
    r"(^|[._])((input|output|activation|k|v|q|prob)_(scale|zero_point|global_scale)(_ub)?|scale_input|scaled_fp8)$"
)
"""What serving programs multiply inputs and caches with; and ComfyUI's mark of a file with 8-bit floats."""


def is_of_activations(key: str) -> bool:
    """Whether a quantised model's tensor is about activations, which a model in full precision does not round."""
    return _OF_ACTIVATIONS.search(key) is not None


def may_be_codes(info: TensorInfo) -> bool:
    """Whether a tensor of this type can be codes."""
    return info.dtype in _CODES and info.count > 0


def codes_and_scales(tensors: Mapping[str, TensorInfo]) -> Iterator[tuple[str, str]]:
    """Every tensor that has scales beside it, and the name of these."""
    for key, info in tensors.items():
        if may_be_codes(info):
            stems = (key.removesuffix(end) for end in _ENDS if key.endswith(end))
            scales = (stem + scale for stem, scale in product(stems, _SCALES))
            if found := next((scale for scale in scales if scale in tensors and scale != key), None):
                yield key, found
