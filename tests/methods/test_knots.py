import torch
from torch.testing import assert_close

from smelt.methods.method import stages
from smelt.methods.subspace.knots import knots

back = stages["knots"].back


def adapters(models: int, rows: int, columns: int, rank: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    left = torch.randn(models, rows, rank, generator=draw)
    return left @ torch.randn(models, rank, columns, generator=draw)


def test_two_models_on_different_rows_by_hand():
    """Rows 1 and 3 of three are in use: two axes, and each model's coordinates are its row, the stronger first."""
    deltas = torch.tensor([[[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [6.0, 8.0]]])
    coordinates, basis = knots(deltas)
    assert_close(basis.abs().float(), torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    assert_close(coordinates[0].abs(), torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    assert_close(coordinates[1].abs(), torch.tensor([[6.0, 8.0], [0.0, 0.0]]))


def test_every_model_is_recovered_from_its_coordinates():
    for rows, columns in ((8, 20), (20, 8), (30, 2), (1, 5)):
        deltas = adapters(3, rows, columns, 2)
        coordinates, basis = knots(deltas)
        assert coordinates.shape == (3, min(rows, 6), columns)
        for delta, own in zip(deltas, coordinates, strict=True):
            assert_close(back(own, basis), delta, rtol=1e-4, atol=1e-5)


def test_a_linear_merge_is_the_same_inside_and_outside():
    deltas = adapters(3, 8, 20, 2)
    coordinates, basis = knots(deltas)
    assert_close(back(coordinates.mean(0), basis), deltas.mean(0), rtol=1e-4, atol=1e-5)


def test_coordinates_carry_the_singular_values():
    """So their size is the models' own: an orthonormal basis keeps norms."""
    deltas = adapters(3, 8, 20, 2)
    assert_close(knots(deltas)[0].flatten(1).norm(dim=1), deltas.flatten(1).norm(dim=1), rtol=1e-4, atol=0)


def test_rank_keeps_the_strongest_axes():
    deltas = torch.diag(torch.tensor([1.0, 5.0, 3.0])).repeat(2, 1, 1)
    coordinates, basis = knots(deltas, rank=2)
    assert coordinates.shape == (2, 2, 3)
    assert_close(back(coordinates[0], basis), torch.diag(torch.tensor([0.0, 5.0, 3.0])))


def test_zero_changes_stay_zero():
    coordinates, basis = knots(torch.zeros(2, 3, 4))
    assert coordinates.shape == (2, 1, 4)
    assert torch.equal(back(coordinates.mean(0), basis), torch.zeros(3, 4))
    assert coordinates.dtype == torch.float32
