"""Numbers behind the corruptions: random ones that belong to a picture's place, and the way back to bytes.

A place has a key per picture, and as many numbers as wanted from a key.

The j-th 64 bits of a picture are a mix (two multiplications and three shifts, the finaliser of splitmix64) of its key
and j. So the numbers of a whole batch are a few vectorised operations, and they are the same for all time, which the
streams of a library's generators do not promise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["normal", "picture_keys", "to_bytes", "uniform"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FINEST = np.float32(2.0**-24)


def picture_keys(
    place: str, indices: Sequence[int] | NDArray[np.int64], what: str, seed: int = 0
) -> NDArray[np.uint64]:
    """A key for each picture of a place, for one use of it."""
    digest = hashlib.blake2b(f"{seed}\0{what}\0{place}".encode(), digest_size=8).digest()
    start = np.uint64(int.from_bytes(digest, "little"))
    return _mix(_mix((np.asarray(indices, dtype=np.uint64) + np.uint64(1)) * _STEP) ^ start)


def uniform(keys: NDArray[np.uint64], shape: tuple[int, ...] = ()) -> NDArray[np.float32]:
    """Numbers in [0, 1) in steps of 2⁻²⁴, of this shape for every key."""
    numbers = (_bits(keys, math.prod(shape)) >> np.uint64(40)).astype(np.float32)
    numbers *= _FINEST
    return numbers.reshape(len(keys), *shape)


def normal(keys: NDArray[np.uint64], shape: tuple[int, ...] = ()) -> NDArray[np.float32]:
    """Normal numbers of mean 0 and variance 1, of this shape for every key (Box and Muller 1958)."""
    count = math.prod(shape)
    pairs = -(-count // 2)
    bits = _bits(keys, pairs)
    radius = (bits >> np.uint64(40)).astype(np.float32)
    radius += np.float32(0.5)  # never the logarithm of 0
    radius *= _FINEST
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle = (bits & np.uint64(0xFFFFFF)).astype(np.float32)
    angle *= np.float32(2 * math.pi) * _FINEST
    out = np.empty((len(keys), 2 * pairs), dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=out[:, :pairs])
    np.multiply(radius, np.sin(angle, out=angle), out=out[:, pairs:])
    return np.ascontiguousarray(out[:, :count]).reshape(len(keys), *shape)


def to_bytes(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The nearest whole number from 0 to 255 of each; `values` are used up.

    Hendrycks' code cuts the fraction off, which darkens every picture by half a level on average.
    """
    np.rint(values, out=values)
    np.clip(values, 0, 255, out=values)
    return values.astype(np.uint8)


def _bits(keys: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    return _mix(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _STEP)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64 bits in which every bit of the input turns about half of the output's; in place."""
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        x ^= x >> shift
        x *= multiplier
    x ^= x >> _SHIFTS[2]
    return x
