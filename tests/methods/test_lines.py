import pytest
import torch
from torch.testing import assert_close

from smelt.methods.method import stages
from smelt.methods.task_vectors.lines import lines

MERGED, DELTAS = torch.tensor([2.0, -4.0]), torch.zeros(3, 2)


@pytest.mark.parametrize(("depth", "factor"), [(0.0, 0.2), (0.5, 0.6), (1.0, 1.0)])
def test_the_scale_grows_linearly_with_depth(depth, factor):
    assert_close(lines(MERGED, DELTAS, depth, low=0.2, high=1.0), MERGED * factor)


def test_by_default_the_last_block_is_whole_and_the_first_is_halved():
    assert_close(lines(MERGED, DELTAS, 1.0), MERGED)
    assert_close(lines(MERGED, DELTAS, 0.0), MERGED / 2)


def test_it_asks_the_engine_for_the_depth():
    assert stages["lines"].asks == ("depth",)
