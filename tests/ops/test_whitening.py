import math

import pytest
import torch
from torch.testing import assert_close

from smelt.ops.whitening import whitened


def blocks_of(length: int, *widths: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.linalg.qr(torch.randn(length, width, generator=draw, dtype=torch.float64))[0] for width in widths]


def polar(blocks: list[torch.Tensor]) -> torch.Tensor:
    return whitened(blocks, torch.cat(blocks, dim=1).mT).mT


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_both_directions_are_turned_equally():
    """Columns at 0 and 60 degrees: their bisector at 30 degrees stays, so they go to 30 - 45 and 30 + 45."""
    angle = torch.deg2rad(torch.tensor([-15.0, 75.0], dtype=torch.float64))
    found = polar([column(1.0, 0.0), column(0.5, math.sqrt(3) / 2)])
    assert_close(found, torch.stack([angle.cos(), angle.sin()]))


def test_equal_directions_share_the_one_they_span():
    half = math.sqrt(0.5)
    found = polar([column(1.0, 0.0), column(1.0, 0.0)])
    assert_close(found, torch.tensor([[half, half], [0.0, 0.0]], dtype=torch.float64))
    third = math.sqrt(1 / 3)
    found = polar([column(1.0, 0.0)] * 3)
    assert_close(found, torch.tensor([[third] * 3, [0.0] * 3], dtype=torch.float64))


@pytest.mark.parametrize("widths", [(5, 5), (7, 3), (3, 7), (6, 2, 2), (4, 4, 4), (5, 0, 5), (4, 0), (9, 1, 0, 1)])
def test_every_way_gives_the_nearest_matrix_with_orthonormal_columns(widths):
    blocks = blocks_of(13, *widths)
    left, _, right = torch.linalg.svd(torch.cat(blocks, dim=1), full_matrices=False)
    assert_close(polar(blocks), left @ right, rtol=0, atol=1e-10)


@pytest.mark.parametrize("widths", [(4, 4), (7, 2), (7, 1, 1), (3, 3, 3)])
def test_directions_that_all_blocks_have_are_shared_on_every_way(widths):
    """The blocks' first columns are equal: their singular value is 0 but for one, so the polar factor leaves it out."""
    blocks = blocks_of(12, *widths)
    for block in blocks[1:]:
        block[:, 0] = blocks[0][:, 0]
        block[:, 1:] = torch.linalg.qr(torch.cat([block[:, :1], block[:, 1:]], dim=1))[0][:, 1:]
    left, values, right = torch.linalg.svd(torch.cat(blocks, dim=1), full_matrices=False)
    kept = values > 1e-6
    assert int(kept.sum()) == sum(widths) - (len(widths) - 1)
    assert_close(polar(blocks), left[:, kept] @ right[kept], rtol=0, atol=1e-9)


def test_nearly_equal_blocks_keep_their_digits():
    """An angle of 1e-4 between two directions: they go 45 degrees to either side of their mean."""
    angle = 1e-4
    half = torch.tensor(math.pi / 4, dtype=torch.float64)
    found = polar([column(1.0, 0.0), column(math.cos(angle), math.sin(angle))])
    turned = torch.stack([angle / 2 - half, angle / 2 + half])
    assert_close(found, torch.stack([turned.cos(), turned.sin()]), rtol=0, atol=1e-7)


def test_no_block_or_one_changes_nothing():
    matrix = torch.ones(2, 3, dtype=torch.float64)
    assert torch.equal(whitened([], matrix), matrix)
    assert torch.equal(whitened(blocks_of(4, 2, 0), matrix), matrix)
