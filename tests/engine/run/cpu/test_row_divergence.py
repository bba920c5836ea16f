"""How far a changed row is from what it was: by hand, as torch defines it, and where numbers are large."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from smelt.engine.run.cpu.machine import ProgramRun, library
from smelt.engine.run.cpu.program import Program
from smelt.methods.means.arcee_fusion import _divergences
from smelt.ops.block import Block, Place

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")


def measured(change: torch.Tensor, base: torch.Tensor) -> np.ndarray:
    program = Program(width=change.shape[1])
    found = program.row_divergence(program.load(0), program.load(1), len(change))
    taps = [tensor.numpy().view(np.uint8).reshape(-1) for tensor in (change, base)]
    assert ProgramRun(program, ["F32", "F32"]).feed(taps, change.numel()) == 0
    return found


def defined(change: torch.Tensor, base: torch.Tensor) -> np.ndarray:
    place = Place("w", 0, tuple(change.shape), 0, change.numel(), 0.0, ("one",))
    return _divergences(Block(change[None], base, place)).numpy()


def test_half_of_a_row_up_and_half_down_by_hand() -> None:
    """From 64 equal shares to exp(a) and exp(-a) over 64 cosh a each: a tanh a - log cosh a, less what 1e-8 blurs."""
    for size in (1e-3, 0.5, 3.0):
        change = torch.full((1, 64), size)
        change[:, ::2] *= -1
        exact = size * math.tanh(size) - math.log(math.cosh(size))
        for found in (measured(change, torch.ones(1, 64)), defined(change, torch.ones(1, 64))):
            assert float(found[0]) == pytest.approx(exact, rel=3e-6)


@pytest.mark.parametrize("columns", [64, 65, 127, 2048])
@pytest.mark.parametrize("size", [1e-6, 1e-4, 1e-3, 0.03, 0.5, 20.0])
def test_the_machine_measures_what_torch_defines(columns: int, size: float) -> None:
    draw = torch.Generator().manual_seed(columns)
    base = torch.randn(50, columns, generator=draw) * 0.05
    change = torch.randn(50, columns, generator=draw) * size
    ours, theirs = measured(change, base), defined(change, base)
    assert (ours.astype(np.float32) != theirs).sum() <= 1  # of 50; none of 48,000 when it was tried out
    assert np.abs(ours / theirs - 1).max() < 1.2e-7  # one unit in the last place of float32


def test_it_does_not_drown_in_rounding_where_all_of_a_row_moves_alike() -> None:
    """A softmax does not see a common shift: what is left is far below the square of a rounding error."""
    draw = torch.Generator().manual_seed(0)
    base = torch.randn(4, 256, generator=draw)
    assert measured(torch.full((4, 256), 0.25), base).max() < 1e-28
    assert defined(torch.full((4, 256), 0.25), base).max() < 1e-28


def test_large_numbers_and_no_change_give_numbers() -> None:
    base = torch.tensor([[1e30, -1e30, 800.0, -800.0] * 16, [0.0] * 64, [3.0] * 64])
    change = torch.tensor([[1e30, -1e30, 3.0, 0.0] * 16, [0.0] * 64, [-900.0] * 64])
    for found in (measured(change, base), defined(change, base)):
        assert np.isfinite(found).all()
        assert found[1] == 0
        assert found[2] == 0
