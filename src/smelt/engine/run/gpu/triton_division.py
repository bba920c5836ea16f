"""Division inside a kernel, in two forms with the same bits: `exactly`, and `quickly` with `odd` for where it may fail.

A GPU's own exact division takes about fifteen operations, and a long detour for zeros. Divided by one number p for all,
x / p is x (1/p) with one correction, once it has been seen that this is right for every x (kernel.py); by a number
for each place it takes two. That holds where no step leaves the range of float32. So the least of all numerators but 0
is kept, shifted so that 0 comes last, and below `TOO_SMALL` the block is done once more in the plain form. Denominators
are made of a program's own numbers, which are known to be small enough (kernel.py).
"""

from __future__ import annotations

import triton
import triton.language as tl

from smelt.engine.run.gpu.triton_ops import fused

__all__ = ["TOO_SMALL"]

TOO_SMALL = tl.constexpr(0x1B000000)
"""What `lesser` makes of 2^-100."""
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def lesser(odd, row):
    """The least of the sizes so far and of this row's, as bits without their sign, shifted; 0 becomes the largest."""
    return tl.minimum(odd, (row.to(tl.uint32, bitcast=True) << 1) - 1)


@triton.jit
def negative(row):
    """Costs nothing as a product, while -x is 0 - x in Triton, which does."""
    return row * -1.0


@triton.jit
def over_quickly(row, divisor, inverse, odd):
    """The remainder has the sign that leaves a zero its own."""
    first = row * inverse
    return fused(fused(first, divisor, negative(row)), -inverse, first), lesser(odd, row)


@triton.jit
def divide_quickly(a, b, odd):
    if _INTERPRETED:
        near = 1.0 / b
    else:
        near = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [b], tl.float32, is_pure=True, pack=1)
    inverse = fused(near, fused(negative(b), near, 1.0), near)
    back, first = negative(inverse), a * inverse
    second = fused(fused(first, b, negative(a)), back, first)
    ratio = fused(fused(second, b, negative(a)), back, second)
    return ratio, lesser(odd, a)


@triton.jit
def over_exactly(row, divisor, inverse, odd):
    return tl.div_rn(row, divisor), odd


@triton.jit
def divide_exactly(a, b, odd):
    return tl.div_rn(a, b), odd


@triton.jit
def variance_quickly(a, b, c, three, third, odd):
    """Of three models, place by place."""
    mean, odd = over_quickly(a + b + c, three, third, odd)
    x, y, z = a - mean, b - mean, c - mean
    return over_quickly(x * x + y * y + z * z, three, third, odd)


@triton.jit
def variance_exactly(a, b, c, three, third, odd):
    mean, odd = over_exactly(a + b + c, three, third, odd)
    x, y, z = a - mean, b - mean, c - mean
    return over_exactly(x * x + y * y + z * z, three, third, odd)
