"""What codes stand for: small tables of float32, one entry for each code.

e4m3, e5m2   8-bit floats (OCP FP8; e4m3 has no infinity)
e2m1         4-bit floats (OCP MX; NVFP4, MXFP4)
int8, uint8, uint4          whole numbers
centred8, int4              whole numbers, stored with 128 or 8 added
nf4, fp4     the quantiles and the floats of bitsandbytes (Dettmers et al. 2023, arXiv:2305.14314, appendix E)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BYTES", "NIBBLES", "float8"]


def float8(exponent_bits: int, bias: int, *, infinite: bool) -> NDArray[np.float32]:
    """All 256 floats of one sign bit, so many bits of exponent, and a mantissa in the rest."""
    codes = np.arange(256)
    mantissa_bits = 7 - exponent_bits
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (codes & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    size = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    highest = exponent == (1 << exponent_bits) - 1
    if infinite:
        size[highest] = np.where(mantissa[highest] == 0, np.inf, np.nan)
    else:
        size[(codes & 127) == 127] = np.nan
    return np.copysign(size, np.where(codes < 128, 1.0, -1.0)).astype(np.float32)


def _table(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# fp4's magnitudes are those of bitsandbytes: a mantissa and two bits of exponent of its own, divided by 12.
_FP4 = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)

BYTES: Mapping[str, NDArray[np.float32]] = {
    "int8": np.arange(256).astype(np.uint8).view(np.int8).astype(np.float32),
    "uint8": np.arange(256, dtype=np.float32),
    "centred8": np.arange(-128, 128, dtype=np.float32),
    "e4m3": float8(4, 7, infinite=False),
    "e5m2": float8(5, 15, infinite=True),
}
"""Of codes of eight bits."""
NIBBLES: Mapping[str, NDArray[np.float32]] = {
    "int4": np.arange(-8, 8, dtype=np.float32),
    "uint4": np.arange(16, dtype=np.float32),
    "e2m1": _table(*_E2M1, *(-size for size in _E2M1)),
    "fp4": _table(*_FP4, *(-size for size in _FP4)),
    "nf4": _table(
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
}  # fmt: skip
"""Of codes of four bits."""
