"""What Portland is judged by: boosting and alignment, with the numbers of the acceptance tests."""

from __future__ import annotations

import math

import pytest
import torch

from smelt.errors import RecipeError
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.objective import OffsetAlignment, boosting, z_scores
from towers_by_hand import BETA, Numbers, Tower, three


def test_n6_the_scalar_alignment_of_three_rows():
    experts = three()
    assert experts.offsets().tolist() == [1.0, -2.0, 1.0]
    assert experts.offsets().dtype == torch.float64
    zs = z_scores(experts.offsets())
    assert zs.tolist() == pytest.approx([0.577350, -1.154701, 0.577350], abs=1e-6)
    assert float(BETA.double() @ zs) == pytest.approx(-0.288675, abs=1e-6)
    loss = float(OffsetAlignment.of(experts, "scalar")(BETA[None]))
    assert loss == pytest.approx(0.0833333, abs=1e-6)
    assert loss / 100 == pytest.approx(8.33333e-4, abs=1e-8)


def test_the_alignment_of_several_examples_is_the_mean_of_squares_not_the_square_of_the_mean():
    both = torch.stack([BETA, torch.tensor([0.0, 1.0, 0.0])])
    assert float(OffsetAlignment.of(three())(both)) == pytest.approx((1 / 12 + 4 / 3) / 2, abs=1e-6)


@pytest.mark.parametrize("rows", [((0.0, 1.0, 2.0), (5.0, 5.0, 5.0)), ((1.0, 0.0, 0.0), (0.0, -3.0, 0.5))])
def test_n7_two_experts_are_aligned_by_their_shares_whatever_their_weights(rows):
    alignment = OffsetAlignment.of(Experts({"a": Tower(Numbers(*rows[0])), "b": Tower(Numbers(*rows[1]))}))
    for share in (0.0, 0.3, 0.5, 1.0):
        beta = torch.tensor([[share, 1 - share]])
        assert float(alignment(beta)) == pytest.approx(0.5 * (2 * share - 1) ** 2, abs=1e-6)


@pytest.mark.parametrize("kind", ["scalar", "gram"])
def test_n8_identical_experts_have_no_alignment_loss_and_no_nan(kind):
    same = Experts({name: Tower(Numbers(0.1, 0.2, 0.3)) for name in "abc"})
    beta = BETA[None].clone().requires_grad_()
    loss = OffsetAlignment.of(same, kind)(beta)
    (gradient,) = torch.autograd.grad(loss, beta)
    assert float(loss.detach()) == 0.0
    assert gradient.tolist() == [[0.0, 0.0, 0.0]]


def test_the_gram_alignment_is_the_squared_length_of_the_weighted_offset():
    # The mean row is (1, 1, 3): offsets (0, 1, 0), (1, -1, -2), (-1, 0, 2) of squared lengths 1, 6, 5.
    experts = three()
    gram = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 6.0, -5.0], [0.0, -5.0, 5.0]], dtype=torch.float64) / 12
    torch.testing.assert_close(experts.gram(), gram)
    # 0.2 (0, 1, 0) + 0.5 (1, -1, -2) + 0.3 (-1, 0, 2) = (0.2, -0.3, -0.4), of squared length 0.29
    assert float(OffsetAlignment.of(experts, "gram")(BETA[None])) == pytest.approx(0.29 / 12, abs=1e-7)
    assert float(OffsetAlignment.of(experts, "gram")(torch.full((1, 3), 1 / 3))) == pytest.approx(0, abs=1e-7)


def test_alignment_that_is_off_is_nothing():
    assert float(OffsetAlignment.of(three(), "off")(BETA[None])) == 0.0


@pytest.mark.parametrize("classes", [2, 10])
def test_n9_semi_supervised_loss_of_no_idea_and_of_certainty(classes):
    unsure = torch.zeros(3, classes)
    assert float(boosting("semi", unsure, None)) == pytest.approx(-math.log(1 / classes + 1e-6), abs=1e-6)
    sure = torch.zeros(3, classes).index_fill(1, torch.tensor([1]), 200.0)
    assert float(boosting("semi", sure.double(), None)) == pytest.approx(-1e-6, rel=1e-3)


def test_supervised_loss_is_the_cross_entropy():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    loss = float(boosting("supervised", logits, torch.tensor([0, 1])))
    assert loss == pytest.approx((math.log(4 / 3) + math.log(2)) / 2, abs=1e-6)


def test_what_is_no_loss_is_refused():
    with pytest.raises(RecipeError, match=r"no alignment named 'scaler' \(did you mean 'scalar'"):
        OffsetAlignment("scaler", torch.zeros(3))
    with pytest.raises(RecipeError, match=r"'gram' is made from the Gram matrix .* got a tensor of \(3,\)"):
        OffsetAlignment("gram", torch.zeros(3))
    with pytest.raises(RecipeError, match="no boosting named 'supervise'"):
        boosting("supervise", torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(RecipeError, match="needs labels"):
        boosting("supervised", torch.zeros(1, 2), None)
