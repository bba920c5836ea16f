import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_no_entry_moves_further_than_t():
    merged = merge_rows("nearswap", [1.5, 0.5, 1.25], base=[1, 1, 1], t=0.25)
    assert merged.tolist() == [1.25, 0.75, 1.25]


def test_what_is_near_is_taken_over():
    assert merge_rows("nearswap", [1.125, 0.875], base=[1, 1], t=0.25).tolist() == [1.125, 0.875]


def test_it_is_the_published_formula():
    """w = min(1, t / |d|), out = (1 - w) base + w model."""
    draw = torch.Generator().manual_seed(0)
    base, model = torch.randn(2, 50, generator=draw)
    share = (0.3 / (model - base).abs()).clamp(max=1)
    assert_close(merge_rows("nearswap", model.tolist(), base=base.tolist(), t=0.3), (1 - share) * base + share * model)


def test_t_must_be_given():
    with pytest.raises(smelt.RecipeError, match="nearswap needs a value for 't'"):
        merge_rows("nearswap", [1])


def test_one_model_exactly():
    with pytest.raises(smelt.RecipeError, match="exactly 1"):
        merge_rows("nearswap", [1], [2], t=0.1)
