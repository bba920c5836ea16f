"""DELLA's draws by ranks in rows: the machine keeps what the definition keeps, whatever the magnitudes look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from smelt.engine.run.cpu.machine import ProgramRun, library
from smelt.engine.run.cpu.program import Program
from smelt.methods.sparsify.della import _kept
from smelt.ops.block import Place
from smelt.ops.random import PlaceRandom, place_key

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")

_DRAW = torch.Generator().manual_seed(3)


def _some(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=_DRAW)


KINDS: dict[str, Callable[[int, int], Tensor]] = {
    "all different": _some,
    "few magnitudes": lambda rows, columns: (_some(rows, columns) * 3).round(),
    "few digits over many octaves": lambda rows, columns: (
        (_some(rows, columns) * 64).round() * torch.exp2((_some(rows, columns) * 3).round())
    ),
    "far tails": lambda rows, columns: _some(rows, columns) * torch.exp(3 * _some(rows, columns)),
    "mostly zeros": lambda rows, columns: _some(rows, columns) * (_some(rows, columns) > 1.5),
    "all zeros": lambda rows, columns: torch.zeros(rows, columns),
    "one magnitude and tiny ones": lambda rows, columns: torch.where(_some(rows, columns) > 0, 3.14, 1e-30),
    "subnormal": lambda rows, columns: _some(rows, columns) * 1e-40,
}


def drawn(row: Tensor, lowest: float, step: float, place: Place) -> np.ndarray:
    program = Program(width=row.shape[1])
    program.store(program.draw_ranked(program.load(0), lowest, step, *place_key(5, 0, place.key, "one", 0)))
    out = np.empty(4 * row.numel(), np.uint8)
    ProgramRun(program, ["F32"], "F32").feed([row.numpy().view(np.uint8).reshape(-1)], row.numel(), out)
    return out.view(np.float32).reshape(row.shape)


@pytest.mark.parametrize("columns", [64, 65, 127, 128, 255, 256, 1000, 2048, 5632])
@pytest.mark.parametrize("kind", KINDS)
def test_the_machine_keeps_what_the_definition_keeps(kind: str, columns: int) -> None:
    rows = max(2, 6000 // columns)
    deltas = KINDS[kind](rows, columns)
    place = Place("w", 0, (rows, columns), 0, rows * columns, 0.0, ("one",))
    for density, window in ((0.5, 0.2), (0.3, 0.6), (0.9, 0.1), (0.5, 1e-7)):
        low, wide = torch.tensor(density), torch.tensor(window)
        expected = _kept(deltas[None], PlaceRandom(5, 0, place), low.view(1, 1, 1), wide.view(1, 1, 1))[0]
        ours = drawn(deltas, float(low - wide / 2), float(wide / columns), place)
        assert np.array_equal(ours, expected.numpy())


def test_in_a_row_of_one_magnitude_every_chance_is_the_density() -> None:
    """All 20,000 share the middle rank: 30 of 100 stay, give or take a few in a thousand."""
    place = Place("w", 0, (1, 20_000), 0, 20_000, 0.0, ("one",))
    kept = drawn(torch.full((1, 20_000), -2.0), 0.2, 0.2 / 20_000, place)
    assert kept.mean() == pytest.approx(0.3, abs=0.015)


def test_the_largest_stay_more_often_than_the_smallest() -> None:
    """Chances go from 0.1 to 0.9 along the ranks: of the lower half 3 of 10 stay, of the upper half 7."""
    place = Place("w", 0, (1, 40_000), 0, 40_000, 0.0, ("one",))
    kept = drawn(torch.arange(1.0, 40_001.0)[None], 0.1, 0.8 / 40_000, place)[0]
    assert kept[:20_000].mean() == pytest.approx(0.3, abs=0.015)
    assert kept[20_000:].mean() == pytest.approx(0.7, abs=0.015)
