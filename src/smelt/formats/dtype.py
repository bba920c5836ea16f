"""Number formats: the codes of the safetensors format, their sizes, and torch's names for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

__all__ = [
    "FLOATS",
    "FP8",
    "NUMPY_FLOATS",
    "WRITABLE",
    "code_of",
    "from_float32",
    "is_known",
    "item_size",
    "parse_dtype",
    "tensor_of",
    "to_float32",
    "torch_dtype",
    "torch_name",
]

_TORCH = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
}
_SIZE = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I64": 8, "I32": 4, "I16": 2,
    "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "C64": 8,
}  # fmt: skip
_SHORT = {"fp64": "F64", "fp32": "F32", "fp16": "F16", "half": "F16", "bf16": "BF16", "float": "F32", "double": "F64"}

FP8 = frozenset({"F8_E4M3", "F8_E5M2"})
FLOATS = frozenset({"F64", "F32", "F16", "BF16"}) | FP8
WRITABLE = FLOATS - FP8
"""What a merge may write: 8-bit floats are read, but rounding a merge to them needs scales that we do not have."""

NUMPY_FLOATS = frozenset({"F32", "F16", "BF16"})
"""What `to_float32` reads, without torch."""


def to_float32(raw: NDArray[np.uint8], code: str) -> NDArray[np.float32]:
    """Stored numbers [bytes] as float32 [numbers]."""
    import numpy as np

    if code == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return raw.view(np.float16 if code == "F16" else np.float32).astype(np.float32)


def from_float32(values: NDArray[np.float32], code: str) -> NDArray[np.uint8]:
    """float32 [numbers] rounded to a format, as its bytes; what is not finite stays so."""
    import numpy as np

    if code != "BF16":
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values.astype(np.float16 if code == "F16" else np.float32)).view(np.uint8)
    bits = values.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16).view(np.uint8)


def torch_dtype(code: str) -> torch.dtype:
    import torch

    dtype: torch.dtype = getattr(torch, _TORCH[code])
    return dtype


def torch_name(code: str) -> str:
    """What torch and configs call it: `F16` -> `float16`."""
    return _TORCH[code]


def tensor_of(content: memoryview, code: str) -> torch.Tensor:
    """Memory as a flat tensor."""
    import torch

    return torch.frombuffer(content, dtype=torch_dtype(code))


def code_of(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    for code, known in _TORCH.items():
        if known == name:
            return code
    raise RecipeError(f"tensors of type {name} cannot be merged or stored as safetensors")


def item_size(code: str) -> int:
    return _SIZE[code]


def is_known(code: str) -> bool:
    return code in _SIZE


def parse_dtype(name: str) -> str:
    """`bfloat16`, `bf16`, `torch.bfloat16` or `BF16` -> `BF16`; only what a merge may write."""
    plain = str(name).removeprefix("torch.").lower()
    options = {_TORCH[code]: code for code in WRITABLE} | _SHORT | {code.lower(): code for code in WRITABLE}
    if plain not in options:
        raise RecipeError(unknown("output dtype", plain, sorted(_TORCH[code] for code in WRITABLE)))
    return options[plain]
