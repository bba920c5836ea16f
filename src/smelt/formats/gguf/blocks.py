"""Blocks of a GGUF file as numbers: integers times scales become float32, with the bits of the format's own library.

blocks.c does it for the types that people use. Where it is not compiled, and for the others, the gguf package does the
same in numpy, some hundred times more slowly.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import MissingExtra
from smelt.formats.gguf.types import TYPES
from smelt.system.process import native_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["COMPILED", "compiled_blocks", "decode", "knows"]

COMPILED = frozenset("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split())
"""Types that blocks.c knows."""


def decode(type_: int, blocks: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
    """Fill `out` with the numbers of whole blocks of a type, one after the other."""
    kind, library = TYPES[type_], compiled_blocks()
    if library is not None and kind.name in COMPILED:
        library.smelt_gguf_blocks(type_, blocks.ctypes.data, len(blocks) // kind.nbytes, out.ctypes.data, 0)
        return
    gguf = _package()
    with np.errstate(all="ignore"):  # damaged scales may be anything
        out[:] = gguf.dequantize(blocks.reshape(-1, kind.nbytes), gguf.GGMLQuantizationType(type_)).reshape(-1)


def knows(type_: int) -> bool:
    """Whether blocks of a type can be decoded here; MissingExtra where only the gguf package can tell."""
    if TYPES[type_].name in COMPILED and compiled_blocks() is not None:
        return True
    gguf = _package()
    try:
        gguf.dequantize(np.zeros((1, TYPES[type_].nbytes), np.uint8), gguf.GGMLQuantizationType(type_))
    except (NotImplementedError, ValueError):
        return False
    return True


def _package() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingExtra("reading this type of GGUF needs the gguf package: pip install 'smelt[gguf]'") from None
    return gguf


@cache
def compiled_blocks() -> ctypes.CDLL | None:
    """The function of blocks.c, where it is compiled."""
    found = native_library(Path(__file__).parent, "_blocks")
    if found is None:
        return None
    try:
        function = found.smelt_gguf_blocks
    except AttributeError:  # made by another version of Smelt
        return None
    function.argtypes = [ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32]
    function.restype = ctypes.c_int
    return found
