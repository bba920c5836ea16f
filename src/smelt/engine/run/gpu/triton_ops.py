"""What the lines of a generated program mean inside a kernel: Triton functions.

They give the bits of torch_ops.py and machine.c. A kernel is made without contraction (kernel.py), so that a product
and a sum are rounded apart where they stand apart; `add_scaled` is the one fused multiply-add.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__: list[str] = []

_ENDLESS = tl.constexpr(float("inf"))
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def load(values):
    if values.dtype == tl.bfloat16 and not _INTERPRETED:  # two at once: one by one they are taken apart first
        asm: tl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        row = tl.inline_asm_elementwise(asm, "=f,=f,r", [values], tl.float32, is_pure=True, pack=2)
    else:
        row = values.to(tl.float32)
    return row


@triton.jit
def rounded(merged, like):
    """As it will be stored."""
    if like.dtype.element_ty != tl.bfloat16:
        stored_dtype = merged.to(like.dtype.element_ty)
    elif _INTERPRETED:  # which would cut off what a GPU rounds
        bits = merged.to(tl.uint32, bitcast=True)
        even = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).to(tl.float32, bitcast=True)
        stored_dtype = even.to(tl.bfloat16)
    else:  # two at once, since one takes as long
        asm: tl.constexpr = "cvt.rn.bf16x2.f32 $0, $2, $1;"
        stored_dtype = tl.inline_asm_elementwise(asm, "=r,f,f", [merged], tl.bfloat16, is_pure=True, pack=2)
    return stored_dtype


@triton.jit
def fused(a, b, c):
    """The product of two and a third, rounded once."""
    if _INTERPRETED:  # which would round the product too
        return (a.to(tl.float64) * b + c).to(tl.float32)
    return tl.fma(a, b, c)


@triton.jit
def magnitude(row):
    """Its bits, which sort like magnitudes."""
    return row.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def subtract(a, b):
    return a - b


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def add_scaled(total, row, factor):
    return fused(row, factor, total)


@triton.jit
def cut(row, above):
    return tl.where(tl.abs(row) > above, row, 0.0)


@triton.jit
def where(row, other, above):
    return tl.where(tl.abs(other) > above, row, 0.0)


@triton.jit
def clamp(row, most):
    return tl.where(row < -most, -most, tl.where(row > most, most, row))


@triton.jit
def draw(place, limit, low, between):
    x = (place + low).to(tl.uint32, bitcast=True)
    x = x ^ (x >> 16)
    x = ((x * 0x7FEB352D).to(tl.int32, bitcast=True) ^ between).to(tl.uint32, bitcast=True)
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    x = x ^ (x >> 16)
    return tl.where(x.to(tl.int32, bitcast=True) <= limit, 1.0, 0.0)


@triton.jit
def sign(row):
    """One with the sign's bit, and 0 for 0: fewer operations than two comparisons."""
    one = ((row.to(tl.uint32, bitcast=True) & 0x80000000) | 0x3F800000).to(tl.float32, bitcast=True)
    return tl.where(row == 0.0, 0.0, one)


@triton.jit
def positive(size):
    return tl.where(size > 0.0, 1.0, 0.0)


@triton.jit
def sign_up(row):
    return tl.where(row < 0.0, -1.0, 1.0)


@triton.jit
def agree(row, elected):
    return tl.maximum(row * elected, 0.0)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def at_least(row, least):
    return tl.maximum(row, least)


@triton.jit
def no_zero(row):
    return tl.where(row == 0.0, 1.0, row)


@triton.jit
def gather_dot(into, a, b):
    tl.store(into, tl.sum(a.to(tl.float64) * b.to(tl.float64), 0))


@triton.jit
def gather_masses(into, apart, a, kept):
    mass = tl.abs(a).to(tl.float64)
    tl.store(into, tl.sum(mass, 0))
    tl.store(into + apart, tl.sum(tl.where(kept != 0.0, mass, 0.0), 0))


@triton.jit
def gather_count(into, met):
    tl.store(into, tl.sum(met.to(tl.int32), 0).to(tl.float64))


@triton.jit
def gather_inside(into, known, bits, met):
    """Append those bits that are met; who appends first does not matter."""
    one = met.to(tl.int32)
    at = tl.atomic_add(known, tl.sum(one, 0))
    tl.store(into + at + tl.cumsum(one, 0) - 1, bits, met)
