"""Codes and scales by hand: which whole numbers, which bytes, which scale, and how much is lost."""

import pytest
import torch

from smelt.formats.packs.codes import decode, encode, factorise, levels, quantise, row_bytes


def rebuilt(rows, bits):
    codes, scale = quantise(rows, bits)
    return codes * scale[:, None]


def test_whole_multiples_of_a_scale_come_back_exactly():
    codes, scale = quantise(0.5 * torch.tensor([[7.0, -3.0, 0.0, 1.0]]), 4)
    assert codes.tolist() == [[7, -3, 0, 1]]
    assert scale.tolist() == [0.5]


def test_the_scale_is_the_best_for_its_codes():
    # -3.5 lies between two codes. With -4 the best scale is (49 + 14 + 1) / (49 + 16 + 1).
    codes, scale = quantise(torch.tensor([[7.0, -3.5, 0.0, 1.0]]), 4)
    assert codes.tolist() == [[7, -4, 0, 1]]
    assert scale.tolist() == pytest.approx([64 / 66])


def test_one_outlier_does_not_drown_its_row():
    # With the largest entry over one level all the ones would be 0, an error of sqrt(20); clipped, only the 3 is off.
    row = torch.tensor([[3.0] + [1.0] * 20])
    codes, scale = quantise(row, 2)
    assert codes.tolist() == [[1] * 21]
    assert scale.tolist() == pytest.approx([23 / 21])


def test_a_row_of_zeros_has_scale_0_and_stays_zero():
    codes, scale = quantise(torch.tensor([[0.0, 0.0], [7.0, 1.0]]), 4)
    assert codes[0].tolist() == [0, 0]
    assert scale[0] == 0


def test_rows_as_large_and_as_small_as_floats_go_are_no_trouble():
    rows = torch.tensor([[7.0, -3.0, 0.0, 1.0]])
    for size in (1e-37, 1e-20, 1e20, 1e37):
        assert torch.allclose(rebuilt(rows * size, 4), rows * size, rtol=1e-5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns", [384, 5])
def test_the_choice_of_scale_never_loses_more_than_the_largest_entry_over_the_levels(bits, columns):
    rows = torch.randn(50, columns, generator=torch.Generator().manual_seed(1))
    plain = rows.abs().amax(1, keepdim=True) / levels(bits)
    plainly = (rows / plain).round() * plain
    assert ((rebuilt(rows, bits) - rows).norm(dim=1) <= (plainly - rows).norm(dim=1) * (1 + 1e-5)).all()


def test_the_choice_of_scale_pays_as_the_module_says():
    rows = torch.randn(384, 384, generator=torch.Generator().manual_seed(0))
    error = {bits: float((rebuilt(rows, bits) - rows).norm() / rows.norm()) for bits in (2, 4, 8)}
    assert error[2] == pytest.approx(0.435, abs=0.005)
    assert error[4] == pytest.approx(0.111, abs=0.002)
    assert error[8] == pytest.approx(0.0073, abs=0.0003)


def test_codes_lie_side_by_side_the_first_in_the_lowest_bits():
    assert encode(torch.tensor([[7.0, -4.0, 0.0, 1.0]]), 4).tolist() == [[14 + 3 * 16, 7 + 8 * 16]]
    assert encode(torch.tensor([[1.0, -1.0, 0.0, 1.0]]), 2).tolist() == [[2 + 0 * 4 + 1 * 16 + 2 * 64]]
    assert encode(torch.tensor([[127.0, -127.0]]), 8).tolist() == [[254, 0]]


def test_every_row_begins_with_a_fresh_byte():
    assert encode(torch.tensor([[7.0, -3.0, 0.0], [1.0, 1.0, 1.0]]), 4).tolist() == [[78, 7], [136, 8]]
    assert row_bytes(3, 4) == 2
    assert row_bytes(5, 2) == 2


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 13])
def test_what_is_encoded_is_decoded(bits, columns):
    top = levels(bits)
    draw = torch.Generator().manual_seed(columns)
    codes = torch.randint(-top, top + 1, (6, columns), generator=draw).float()
    packed = encode(codes, bits)
    assert packed.shape == (6, row_bytes(columns, bits))
    assert torch.equal(decode(packed, bits, columns), codes)


def test_a_change_of_low_rank_is_kept_by_thin_factors():
    # The outer product of (1, 2, 2) and (3, 4) has size 3 * 5 and one direction.
    change = torch.outer(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([3.0, 4.0]))
    up, down, scale = factorise(change, 2)
    assert scale.tolist() == pytest.approx([15.0])
    assert (up.dtype, up.shape, down.shape) == (torch.float16, (3, 2), (2, 2))
    assert torch.allclose(scale * up.float() @ down.float(), change, rtol=2e-3)


def test_no_change_has_factors_of_zero():
    up, down, scale = factorise(torch.zeros(3, 2), 2)
    assert [factor.any().item() for factor in (up, down, scale)] == [False] * 3
