"""The compiled functions and numpy give the same bits, for every kind of code and every format of numbers."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from smelt.formats.dtype import item_size
from smelt.formats.quantised import kernels
from smelt.formats.quantised.code_tables import BYTES, NIBBLES
from smelt.formats.quantised.kernels import Codes, dequantise, dequantise_turned

SHAPES = [
    (7, 30, (3, 8)),
    (70, 90, (32, 32)),
    (4, 600, (1, 600)),
    (9, 512, (1, 16)),
    (3, 640, (1, 8)),
    (130, 66, (130, 66)),
]
"""Rows, columns, and the block that shares a scale."""


def made(kind: str, rows: int, columns: int, block: tuple[int, int], draw: np.random.Generator) -> Codes:
    size = rows * columns // (2 if kind in NIBBLES else 1)
    grid = (-(-rows // block[0]), -(-columns // block[1]))
    scales = draw.normal(size=grid).astype(np.float32)
    return Codes(draw.integers(0, 256, size).astype(np.uint8), kind, columns, scales, block)


def numbers(raw: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return raw.view(np.float16 if dtype == "F16" else np.float32).astype(np.float32)


def straight(codes: Codes, dtype: str, start: int, count: int) -> NDArray[np.float32]:
    out = np.empty(count * item_size(dtype), np.uint8)
    dequantise(codes, start, count, dtype, out)
    return numbers(out, dtype)


def turned(codes: Codes, dtype: str) -> NDArray[np.float32]:
    out = np.empty(codes.rows * codes.columns * item_size(dtype), np.uint8)
    dequantise_turned(codes, 0, codes.columns, dtype, out)
    return numbers(out, dtype).reshape(codes.columns, codes.rows)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("kind", [*BYTES, *NIBBLES])
def test_compiled_functions_and_numpy_agree(kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels.library() is None and not os.environ.get("SMELT_REQUIRE_FUSED"):
        pytest.skip("the compiled functions are not there: no C compiler")
    assert kernels.library() is not None
    draw = np.random.default_rng(0)
    for rows, columns, block in SHAPES:
        plain = made(kind, rows, columns, block, draw)
        zeros = draw.integers(0, 16, plain.scales.shape).astype(np.float32)
        order = draw.integers(0, plain.scales.shape[1], columns).astype(np.int32)
        for codes in (
            plain,
            replace(plain, zeros=zeros),
            replace(plain, group_of=order),
            replace(plain, high_first=True),
        ):
            start = int(draw.integers(0, rows * columns))
            count = int(draw.integers(0, rows * columns - start + 1))
            found = (
                straight(codes, dtype, 0, rows * columns),
                turned(codes, dtype),
                straight(codes, dtype, start, count),
            )
            with monkeypatch.context() as without:
                without.setattr(kernels, "library", lambda: None)
                wanted = straight(codes, dtype, 0, rows * columns)
            assert np.array_equal(found[0], wanted, equal_nan=True)
            assert np.array_equal(found[1], wanted.reshape(rows, columns).T, equal_nan=True)
            assert np.array_equal(found[2], wanted[start : start + count], equal_nan=True)


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_8_bit_floats_are_those_of_torch(kind: str, dtype: torch.dtype) -> None:
    theirs = torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy()
    assert np.array_equal(BYTES[kind], theirs, equal_nan=True)


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    """Codes 1 with scales of every size: exact ties, numbers that are too small, too large, and NaN."""
    draw = np.random.default_rng(1)
    scales = np.ldexp(draw.normal(size=20_000), draw.integers(-130, 120, 20_000)).astype(np.float32)
    scales[:6] = [1 + 2**-8, 1 + 3 * 2**-8, 65519.99, 65520, 2**-24 * 1.5, np.nan]
    codes = Codes(np.ones(20_000, np.uint8), "uint8", 20_000, scales[None], (1, 1))
    name = torch.bfloat16 if dtype == "BF16" else torch.float16
    theirs = torch.from_numpy(scales).to(name).float().numpy()
    assert np.array_equal(straight(codes, dtype, 0, 20_000), theirs, equal_nan=True)
