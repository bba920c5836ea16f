"""Sign conflicts, by hand."""

import math

import pytest
import torch

from analysed_by_hand import pool, tensors, three
from checkpoints import random_state
from smelt.analyse import deltas, sign_conflicts
from smelt.errors import RecipeError


def test_conflicts_of_three_known_changes():
    """Changes (1, 0), (1, 1), (-1, 0): only the first entry is pulled both ways."""
    found = sign_conflicts(three())
    assert found.pairs == ((0, 0, 1), (0, 0, 1), (1, 1, 0))
    assert found.overlap == ((0.5, 0.5, 0.5), (0.5, 1, 0.5), (0.5, 0.5, 0.5))
    assert found.entries == 1 / 2
    assert found.mass == 3 / 4
    assert found.cancelled == 1 - 2 / 4


def test_shares_count_entries_that_both_changed():
    base = tensors(w=[0, 0, 0, 0])
    found = sign_conflicts(pool(base, a=tensors(w=[1, 2, 3, 0]), b=tensors(w=[-1, 1, 0, 1])))
    assert found.pairs[0][1] == 1 / 2
    assert found.overlap[0][1] == 2 / 4
    assert found.entries == 1 / 4


def test_what_is_left_after_adding_counts_whatever_its_sign():
    """Sums are -2 and 3 of magnitudes 4 and 3: of 7 in all, 2 cancel."""
    found = sign_conflicts(pool(tensors(w=[0, 0]), a=tensors(w=[-3, 1]), b=tensors(w=[1, 2])))
    assert found.cancelled == pytest.approx(2 / 7)


def test_density_counts_the_largest_changes_over_all_tensors():
    """Half of the entries: (9, 8) of a and (-7, 6) of b, so that they meet in the first alone."""
    base = tensors(x=[0, 0], y=[0, 0])
    models = pool(base, a=tensors(x=[9, 1], y=[8, -1]), b=tensors(x=[-7, 1], y=[2, 6]))
    found = sign_conflicts(models, density=0.5)
    assert found.pairs[0][1] == 1.0
    assert found.overlap == ((0.5, 0.25), (0.25, 0.5))
    assert found.entries == 1 / 3
    assert found.mass == 16 / 30
    assert found.cancelled == pytest.approx(1 - (2 + 8 + 6) / 30)
    assert sign_conflicts(models).pairs[0][1] == 2 / 4


def test_exactly_the_asked_number_counts_when_changes_tie():
    base = tensors(w=[0] * 10)
    found = sign_conflicts(pool(base, a=tensors(w=[1] * 10)), density=0.3)
    assert found.overlap == ((0.3,),)


@pytest.mark.parametrize("density", [0, -1, 1.5, math.nan])
def test_a_density_outside_0_and_1_is_refused(density):
    with pytest.raises(RecipeError, match="density"):
        sign_conflicts(three(), density=density)


def test_what_cannot_be_counted_is_nan_and_noted():
    base = tensors(w=[0, 0])
    found = sign_conflicts(pool(base, same=base, left=tensors(w=[1, 0]), right=tensors(w=[0, 1])))
    assert all(math.isnan(number) for number in found.pairs[0])
    assert math.isnan(found.pairs[1][2])
    assert found.entries == 0
    assert any("same equals the base" in note for note in found.notes)
    assert any("left and right changed no entry in common" in note for note in found.notes)
    nothing = sign_conflicts(pool(base, same=base))
    assert math.isnan(nothing.entries)
    assert nothing.to_json()["mass"] is None


def test_blocks_equal_the_whole(monkeypatch):
    shapes = {"x": (70, 60), "y": (33,)}
    base, *models = (random_state(seed, shapes) for seed in range(4))
    named = {f"m{number}": model for number, model in enumerate(models)}
    whole = sign_conflicts(named, base=base, density=0.2)
    monkeypatch.setattr(deltas, "_STACK", 1)
    blocks = sign_conflicts(named, base=base, density=0.2)
    assert (blocks.pairs, blocks.overlap, blocks.entries) == (whole.pairs, whole.overlap, whole.entries)
    assert blocks.mass == pytest.approx(whole.mass)
    changes = torch.stack([torch.cat([(m[k] - base[k]).flatten() for k in shapes]) for m in models])
    assert sign_conflicts(named, base=base).pairs[0][1] == pytest.approx(
        float((changes[0] * changes[1] < 0).double().mean())
    )
