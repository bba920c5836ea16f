import math
import re
import sys

import torch
from torch.testing import assert_close

from smelt.methods.subspace.iso_c import iso_c
from smelt.methods.subspace.iso_cts import iso_cts


def diagonal(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float32))


def test_each_model_adds_a_direction_of_its_own():
    """Half of four directions are common: the sum is diag(8, 6, 1, 4), so those are e1 and e2. Outside them the
    models' strongest are e3, with 2, and e4, with 4. All get mean(8, 6, 2, 4) = 5."""
    deltas = torch.stack([diagonal(5, 3, 2, 0), diagonal(3, 3, -1, 4)])
    assert_close(iso_cts(deltas, common=0.5), diagonal(5, 5, 5, 5))
    assert_close(iso_cts(deltas, common=0.5, scale=0.2), diagonal(1, 1, 1, 1))


def test_a_direction_that_cancels_in_the_sum_survives():
    """e3 is 2 - 2 = 0 in the sum. With e1 (5) common, the models' own directions are e3 (2) and e2 (4)."""
    deltas = torch.stack([diagonal(5, 0, 2), diagonal(0, 4, -2)])
    assert_close(iso_c(deltas), diagonal(4.5, 4.5, 0))
    assert_close(iso_cts(deltas, common=0.34), diagonal(11 / 3, 11 / 3, 11 / 3))


def test_own_directions_never_outnumber_the_matrix():
    """A tenth of three rounds down to none, and 3 / 2 up to two each, which would be four: each keeps one."""
    deltas = torch.stack([diagonal(5, 0, 2), diagonal(0, 4, -2)])
    assert_close(iso_cts(deltas, common=0.1), iso_cts(deltas, common=0.34))


def test_without_room_for_own_directions_it_is_iso_c():
    deltas = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    assert_close(iso_cts(deltas), iso_c(deltas))


def test_common_of_one_is_iso_c():
    deltas = torch.randn(2, 10, 12, generator=torch.Generator().manual_seed(0))
    assert_close(iso_cts(deltas, common=1.0), iso_c(deltas))
    assert not torch.allclose(iso_cts(deltas, common=0.5), iso_c(deltas), atol=1e-2)


def test_a_single_model_is_iso_c_of_it():
    delta = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    assert_close(iso_cts(delta, common=0.5), iso_c(delta), rtol=1e-4, atol=1e-5)


def test_every_direction_has_the_same_length():
    deltas = torch.randn(2, 10, 12, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(iso_cts(deltas, common=0.6, scale=2.0))
    assert_close(values, values.mean().expand(10), rtol=1e-4, atol=0)


def test_zero_changes_give_zero():
    assert torch.equal(iso_cts(torch.zeros(2, 10, 12), common=0.5), torch.zeros(10, 12))


def test_the_order_of_models_does_not_matter():
    deltas = torch.randn(3, 12, 9, generator=torch.Generator().manual_seed(2))
    deltas[1] = 0
    assert_close(iso_cts(deltas, common=0.6), iso_cts(deltas.flip(0), common=0.6), rtol=1e-4, atol=1e-5)


def test_the_documented_rounding_is_the_one_that_is_done():
    """A 33 x 17 layer of 7 models: four fifths of 17 is 13.6, so 13; of the 4 left each model has 4/7, so 1."""
    said = re.search(r" s = (.+)$", sys.modules[iso_cts.__module__].__doc__, re.MULTILINE)
    own = eval(said[1], {"r": 17, "n": 7, "common": 0.8, "floor": math.floor, "round": round})
    deltas = torch.randn(7, 33, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert own == 1
    assert_close(iso_cts(deltas.float()).double(), _by_svd(deltas, own), rtol=1e-4, atol=1e-5)


def _by_svd(deltas, own):
    """The method written out with a full SVD."""
    models, _, rank = deltas.shape
    left, values, right = torch.linalg.svd(deltas.sum(0), full_matrices=False)
    common = rank - models * own
    parts = [(left[:, :common], values[:common], right[:common])]
    for delta in deltas:
        rest = delta - parts[0][0] @ parts[0][0].mT @ delta
        u, s, v = torch.linalg.svd(rest, full_matrices=False)
        parts.append((u[:, :own], s[:own], v[:own]))
    u, _, v = torch.linalg.svd(torch.cat([part[0] for part in parts], 1), full_matrices=False)
    x, _, y = torch.linalg.svd(torch.cat([part[2] for part in parts]), full_matrices=False)
    return torch.cat([part[1] for part in parts]).mean() * (u @ v) @ (x @ y)
