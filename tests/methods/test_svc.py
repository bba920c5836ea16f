import torch
from torch.testing import assert_close

from smelt.methods.subspace.svc import svc


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float32))


def test_a_direction_counted_twice_is_halved():
    """Both models have 3 along e1, which the sum counts twice; e2 belongs to one of them and stays."""
    deltas = torch.stack([diagonal(3, 5), diagonal(3, 0)])
    assert_close(svc(deltas.sum(0), deltas), diagonal(3, 5))


def test_copies_come_back_from_their_sum_and_from_their_mean():
    delta = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    deltas = delta.repeat(3, 1, 1)
    assert_close(svc(deltas.sum(0), deltas), delta, rtol=1e-4, atol=1e-5)
    assert_close(svc(deltas.mean(0), deltas), delta, rtol=1e-4, atol=1e-5)


def test_unequal_shares_are_balanced_by_the_mean_of_the_ratios():
    """1 + 3 = 4 is 4 times the first model and 4/3 of the second: 4 * 2 / (4 + 4/3) = 1.5."""
    deltas = torch.tensor([[[1.0]], [[3.0]]])
    assert_close(svc(deltas.sum(0), deltas), torch.tensor([[1.5]]))


def test_alpha_bounds_the_growth():
    """4 - 3 = 1 is 1/4 of the first model and -1/3 of the second, which alpha lifts: 2 / (0.25 + 0.1)."""
    deltas = torch.tensor([[[4.0]], [[-3.0]]])
    assert_close(svc(deltas.sum(0), deltas), torch.tensor([[2 / 0.35]]))
    assert_close(svc(deltas.sum(0), deltas, alpha=0.5), torch.tensor([[2.0]]))


def test_a_model_without_response_has_no_say():
    deltas = torch.stack([diagonal(2, 0), diagonal(0, 7), torch.zeros(2, 2)])
    assert_close(svc(deltas.sum(0), deltas), diagonal(2, 7))


def test_rounding_is_no_response():
    """As above but rotated, so that float32 leaves a response of 1e-8 where there is none."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(9, 9, generator=generator))[0] for _ in range(2))
    deltas = torch.stack([(left[:, i : i + 3] * (i + 1)) @ right[i : i + 3] for i in (0, 3, 6)])
    assert_close(svc(deltas.sum(0), deltas), deltas.sum(0))


def test_a_direction_that_no_model_has_stays():
    merged = diagonal(3, 1)
    assert_close(svc(merged, torch.zeros(2, 2, 2)), merged)


def test_a_zero_change_stays_zero():
    assert torch.equal(svc(torch.zeros(2, 3), torch.zeros(2, 2, 3)), torch.zeros(2, 3))
    assert torch.equal(svc(torch.zeros(2, 3), torch.ones(2, 2, 3)), torch.zeros(2, 3))


def test_only_singular_values_change():
    deltas = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))
    merged = deltas.sum(0)
    before = merged.clone()
    left, _, right = torch.linalg.svd(merged, full_matrices=False)
    inside = left.mT @ svc(merged, deltas) @ right.mT
    assert_close(inside, torch.diag(inside.diagonal()), rtol=0, atol=1e-4)
    assert torch.equal(merged, before)
