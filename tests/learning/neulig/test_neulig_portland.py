"""Portland: from features to coefficients, on disk, and for other experts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from smelt.errors import CorruptFile, RecipeError
from smelt.learning.neulig.portland import Portland
from towers_by_hand import linear, towers

Z = torch.randn(7, 3, 4, generator=torch.Generator().manual_seed(5))


def test_portland_has_one_linear_layer_of_the_size_that_is_specified():
    assert sum(p.numel() for p in Portland([f"e{i}" for i in range(5)], 512).parameters()) == 12_805


def test_coopvecs_are_on_the_simplex_and_follow_from_the_seed_alone():
    torch.manual_seed(1)
    one = Portland("abc", 4, seed=3).coopvec(Z)
    state = torch.get_rng_state()
    other = Portland("abc", 4, seed=3).coopvec(Z)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, other)
    assert not torch.equal(one, Portland("abc", 4, seed=4).coopvec(Z))
    torch.testing.assert_close(one.sum(dim=1), torch.ones(7))


def test_n2_a_portland_of_zeros_shares_equally():
    portland = Portland("abc", 4)
    for parameter in portland.parameters():
        torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(portland.coopvec(Z), torch.full((7, 3), 1 / 3))


def test_n10_experts_in_another_order_have_the_same_coefficients_in_that_order():
    portland, order = Portland("abc", 4, seed=1), [2, 0, 1]
    moved = portland.permuted(order)
    assert moved.experts == ("c", "a", "b")
    torch.testing.assert_close(moved.coopvec(Z[:, order]), portland.coopvec(Z)[:, order])


def test_a_saved_portland_comes_back_equal(tmp_path: Path):
    portland = Portland("abc", 4, seed=2)
    back = Portland.load(portland.save(tmp_path / "deep" / "p"))
    assert (back.experts, back.width) == (("a", "b", "c"), 4)
    assert torch.equal(back.coopvec(Z), portland.coopvec(Z))


def test_a_folder_that_holds_no_portland_is_named(tmp_path: Path):
    with pytest.raises(RecipeError, match="there is no Portland here"):
        Portland.load(tmp_path)
    place = Portland("abc", 4).save(tmp_path / "p")
    (place / "portland.json").write_text('{"format": 1, "experts": ["a", "b"], "width": 4}')
    with pytest.raises(CorruptFile, match=r"is not what portland.json describes \(2 experts of 4\)"):
        Portland.load(place)
    (place / "portland.json").write_text('{"format": 9, "experts": ["a", "b"], "width": 4}')
    with pytest.raises(CorruptFile, match="does not describe a Portland of format 1"):
        Portland.load(place)


def test_transfer_keeps_the_numbers_and_changes_the_names():
    portland = Portland("abc", 4)
    other = portland.for_experts(["x", "y", "z"])
    assert (other.experts, portland.experts) == (("x", "y", "z"), ("a", "b", "c"))
    assert torch.equal(other.coopvec(Z), portland.coopvec(Z))
    torch.nn.init.zeros_(other.linear.weight)
    assert not torch.equal(other.coopvec(Z), portland.coopvec(Z))
    with pytest.raises(RecipeError, match="is for 3 experts, not for 2"):
        portland.for_experts(["x", "y"])


def test_a_new_expert_begins_with_no_say_and_the_old_coefficients_stay():
    portland = Portland("abc", 4)
    more = portland.with_expert("d")
    beta = more.coopvec(torch.cat([Z, torch.full((7, 1, 4), 50.0)], dim=1))
    torch.testing.assert_close(beta[:, :3], portland.coopvec(Z))
    assert bool((beta[:, 3] < 1e-7).all())
    assert more.experts == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Portland("a", 4), "at least two experts, got 1"),
        (lambda: Portland("aba", 4), "a is there more than once"),
        (lambda: Portland("ab", 4).with_expert("a"), "a is there more than once"),
        (lambda: Portland("abc", 5).coopvec(Z), "takes 5 features of each of 3 experts .* are \\(7, 3, 4\\)"),
        (lambda: Portland("ab", 4).coopvec(Z), "takes 4 features of each of 2 experts"),
        (lambda: Portland("abc", 4).permuted([0, 1, 1]), "has each place once"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(RecipeError, match=said):
        call()


def test_names_of_experts_go_with_their_order():
    assert Portland(towers(linear).names, 4).experts == ("e0", "e1", "e2")
