import torch
from torch.testing import assert_close

from smelt.methods.method import stages
from smelt.methods.subspace.core_space import core_space
from smelt.methods.subspace.iso_c import iso_c

back = stages["core_space"].back


def adapters(models: int, rows: int, columns: int, rank: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    left = torch.randn(models, rows, rank, generator=draw)
    return left @ torch.randn(models, rank, columns, generator=draw)


def test_two_entries_by_hand():
    """One entry each, in other rows and columns: the cores are 2 x 2 with that entry alone, the stronger first."""
    deltas = torch.zeros(2, 4, 5)
    deltas[0, 1, 3], deltas[1, 2, 0] = 2.0, -7.0
    cores, _ = core_space(deltas)
    assert_close(cores.abs(), torch.tensor([[[0.0, 0.0], [0.0, 2.0]], [[7.0, 0.0], [0.0, 0.0]]]))


def test_cores_are_small_and_nothing_is_lost():
    for rows, columns in ((15, 40), (40, 15), (20, 20)):
        deltas = adapters(3, rows, columns, 2)
        cores, basis = core_space(deltas)
        assert cores.shape == (3, 6, 6)
        for delta, core in zip(deltas, cores, strict=True):
            assert_close(back(core, basis), delta, rtol=1e-4, atol=2e-5)


def test_adapters_of_different_ranks_fit_together():
    deltas = torch.cat([adapters(1, 15, 12, 1), adapters(2, 15, 12, 3)[1:]])
    cores, basis = core_space(deltas)
    assert cores.shape == (2, 4, 4)
    assert_close(back(cores.mean(0), basis), deltas.mean(0), rtol=1e-4, atol=2e-5)


def test_a_method_that_does_not_mind_rotations_gives_the_same_in_either_space():
    deltas = adapters(2, 15, 12, 2)
    cores, basis = core_space(deltas)
    assert_close(back(iso_c(cores), basis), iso_c(deltas), rtol=1e-4, atol=1e-4)


def test_tiny_and_full_rank_matrices_come_back():
    for shape in ((2, 2, 2), (3, 1, 6), (3, 6, 1), (2, 5, 7)):
        deltas = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        cores, basis = core_space(deltas)
        assert_close(back(cores[0], basis), deltas[0], rtol=1e-4, atol=1e-5)


def test_rank_bounds_both_bases():
    cores, basis = core_space(adapters(3, 15, 12, 2), rank=2)
    assert cores.shape == (3, 2, 2)
    assert back(cores[0], basis).shape == (15, 12)


def test_zero_changes_stay_zero():
    cores, basis = core_space(torch.zeros(2, 3, 4))
    assert cores.shape == (2, 1, 1)
    assert torch.equal(back(cores.mean(0), basis), torch.zeros(3, 4))
