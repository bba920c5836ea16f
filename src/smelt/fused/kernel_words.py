"""What the lines of a written program mean inside a kernel: Triton functions, to the bit what `words.py` and machine.c do.

A kernel is made without contraction (`kernel.py`), so that a product and a sum are rounded apart where they stand apart;
`add_scaled` is the one fused multiply-add.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

__all__: list[str] = []

_ENDLESS = tl.constexpr(float("inf"))
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def load(values: Any) -> Any:
    return values.to(tl.float32)


@triton.jit
def rounded(merged: Any, like: Any) -> Any:
    """As it will be stored."""
    if _INTERPRETED and like.dtype.element_ty == tl.bfloat16:  # which would cut off what a GPU rounds
        bits = merged.to(tl.uint32, bitcast=True)
        merged = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).to(tl.float32, bitcast=True)
    return merged.to(like.dtype.element_ty)


@triton.jit
def finite(values: Any) -> Any:
    return tl.abs(values.to(tl.float32)) < _ENDLESS


@triton.jit
def magnitude(row: Any) -> Any:
    """Its bits, which sort like magnitudes."""
    return row.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def subtract(a: Any, b: Any) -> Any:
    return a - b


@triton.jit
def add(a: Any, b: Any) -> Any:
    return a + b


@triton.jit
def multiply(a: Any, b: Any) -> Any:
    return a * b


@triton.jit
def divide(a: Any, b: Any) -> Any:
    """Exactly rounded. A GPU divides zero by a detour that is many times as long, and zeros are many: they divide 1."""
    zero = a == 0.0
    ratio = tl.div_rn(tl.where(zero, 1.0, a), b)
    return tl.where(zero, tl.where(b != 0.0, a * b, float("nan")), ratio)


@triton.jit
def over(a: Any, divisor: Any) -> Any:
    """The same by one number for all, which is not 0."""
    zero = a == 0.0
    return tl.where(zero, a * divisor, tl.div_rn(tl.where(zero, 1.0, a), divisor))


@triton.jit
def add_scaled(total: Any, row: Any, factor: Any) -> Any:
    if _INTERPRETED:  # which would round the product too
        fused = (row.to(tl.float64) * factor + total.to(tl.float64)).to(tl.float32)
    else:
        fused = tl.fma(row, factor, total)
    return fused


@triton.jit
def cut(row: Any, above: Any) -> Any:
    return tl.where(tl.abs(row) > above, row, 0.0)


@triton.jit
def where(row: Any, other: Any, above: Any) -> Any:
    return tl.where(tl.abs(other) > above, row, 0.0)


@triton.jit
def clamp(row: Any, most: Any) -> Any:
    return tl.where(row < -most, -most, tl.where(row > most, most, row))


@triton.jit
def variance(a: Any, b: Any, c: Any, three: Any) -> Any:
    """Of three models, place by place."""
    mean = over(a + b + c, three)
    x, y, z = a - mean, b - mean, c - mean
    return over(x * x + y * y + z * z, three)


@triton.jit
def draw(place: Any, limit: Any, low: Any, between: Any) -> Any:
    x = (place + low).to(tl.uint32, bitcast=True)
    x = x ^ (x >> 16)
    x = ((x * 0x7FEB352D).to(tl.int32, bitcast=True) ^ between).to(tl.uint32, bitcast=True)
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    x = x ^ (x >> 16)
    return tl.where(x.to(tl.int32, bitcast=True) <= limit, 1.0, 0.0)


@triton.jit
def sign(row: Any) -> Any:
    return tl.where(row > 0.0, 1.0, tl.where(row < 0.0, -1.0, 0.0))


@triton.jit
def sign_up(row: Any) -> Any:
    return tl.where(row < 0.0, -1.0, 1.0)


@triton.jit
def agree(row: Any, elected: Any) -> Any:
    both = row * elected
    return tl.where(both > 0.0, both, 0.0)


@triton.jit
def larger(a: Any, b: Any) -> Any:
    return tl.where(a > b, a, b)


@triton.jit
def at_least(row: Any, least: Any) -> Any:
    return tl.where(row > least, row, least)


@triton.jit
def no_zero(row: Any) -> Any:
    return tl.where(row == 0.0, 1.0, row)


@triton.jit
def gather_dot(into: Any, a: Any, b: Any) -> None:
    tl.store(into, tl.sum(a.to(tl.float64) * b.to(tl.float64), 0))


@triton.jit
def gather_masses(into: Any, apart: Any, a: Any, kept: Any) -> None:
    mass = tl.abs(a).to(tl.float64)
    tl.store(into, tl.sum(mass, 0))
    tl.store(into + apart, tl.sum(tl.where(kept != 0.0, mass, 0.0), 0))


@triton.jit
def gather_count(into: Any, met: Any) -> None:
    tl.store(into, tl.sum(met.to(tl.int32), 0).to(tl.float64))


@triton.jit
def gather_inside(room: Any, known: Any, bits: Any, met: Any) -> None:
    """Append those bits that are met; who appends first does not matter."""
    one = met.to(tl.int32)
    at = tl.atomic_add(known, tl.sum(one, 0))
    tl.store(room + at + tl.cumsum(one, 0) - 1, bits, met)
