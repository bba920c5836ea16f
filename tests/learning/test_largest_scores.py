"""The largest scores of a whole model."""

from __future__ import annotations

import pytest
import torch

from smelt.learning.largest_scores import top


def test_the_largest_are_kept_over_all_tensors_together() -> None:
    scores = {"a": torch.tensor([[3.0, -1.0], [0.5, -7.0]]), "b": torch.tensor([2.0, -0.5])}
    kept = top(scores, scores.__getitem__, 0.5)
    assert kept["a"].tolist() == [[True, False], [True, False]]
    assert kept["b"].tolist() == [True, False]


def test_of_equal_scores_the_first_are_kept() -> None:
    scores = {"a": torch.tensor([1.0, 0.0, -0.0]), "b": torch.tensor([0.0, 0.0, -1.0])}
    kept = top(scores, scores.__getitem__, 0.5)
    assert (kept["a"].tolist(), kept["b"].tolist()) == ([True, True, True], [False, False, False])


def test_a_share_is_taken_as_written_in_decimal() -> None:
    scores = {"a": torch.arange(100.0)}
    assert int(100 * 0.29) == 28  # in binary
    assert int(top(scores, scores.__getitem__, 0.29)["a"].sum()) == 29


@pytest.mark.parametrize("density", [0.0, 0.001, 0.1, 0.37, 0.999, 1.0])
def test_exactly_as_many_are_kept_as_a_sort_would_keep(density: float) -> None:
    draw = torch.Generator().manual_seed(0)
    scores = {str(n): torch.randn(1000, generator=draw).bfloat16().float() for n in range(4)}  # full of equal ones
    flat = torch.cat(list(scores.values()))
    order = flat.sort(descending=True, stable=True).indices[: int(4000 * density)]
    wanted = torch.zeros(4000, dtype=torch.bool).index_fill(0, order, value=True)
    assert torch.equal(torch.cat(list(top(scores, scores.__getitem__, density).values())), wanted)
