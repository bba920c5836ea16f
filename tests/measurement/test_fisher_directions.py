from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from smelt.measurement.fisher_directions import drawn_labels, exact_directions, label_directions


def information(logits: Tensor) -> Tensor:
    p = logits.double().softmax(-1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


def outer(directions: Tensor) -> Tensor:
    return torch.einsum("rnc,rnd->ncd", directions.double(), directions.double())


def test_two_classes_have_one_direction_along_their_difference() -> None:
    p, q = 0.8, 0.2
    found = exact_directions(torch.tensor([[math.log(p), math.log(q)]]))
    size = math.sqrt(p * q)
    assert found.shape == (1, 1, 2)
    assert found[0, 0].tolist() == pytest.approx([-size, size], rel=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 50])
def test_the_directions_make_up_the_information_of_the_softmax(classes: int) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(4, classes)
    found = exact_directions(logits, tolerance=0)
    assert len(found) == classes - 1
    assert torch.allclose(outer(found), information(logits), atol=1e-7)


def test_what_is_left_out_is_less_than_the_tolerance_of_the_trace() -> None:
    torch.manual_seed(0)
    logits = 6 * torch.randn(4, 50)
    found = exact_directions(logits, tolerance=1e-3)
    whole, kept = (float(m.diagonal(dim1=1, dim2=2).sum()) for m in (information(logits), outer(found)))
    assert len(found) < 49
    assert whole * (1 - 1e-3) <= kept <= whole * (1 + 1e-6)


def test_scores_of_few_features_move_along_few_directions() -> None:
    torch.manual_seed(0)
    head = torch.randn(30, 4)
    logits = torch.randn(5, 4) @ head.T
    found = exact_directions(logits, head, tolerance=0)
    assert len(found) == 4
    pulled = [h.mT @ m @ h for m in (outer(found), information(logits)) for h in (head.double(),)]
    assert torch.allclose(pulled[0], pulled[1], rtol=1e-5, atol=1e-6)


def test_a_head_that_the_scores_do_not_come_from_is_not_believed() -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 30)
    assert len(exact_directions(logits, torch.randn(30, 4), tolerance=0)) == 29


def test_a_score_of_no_chance_is_no_trouble() -> None:
    found = exact_directions(torch.tensor([[0.0, -1e4, -1e4]]), tolerance=0)
    assert bool(found.isfinite().all())
    assert float(found.abs().max()) == 0


def test_the_direction_of_a_label_is_the_gradient_of_its_log_probability() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0]])
    assert label_directions(logits, torch.tensor([0]))[0, 0].tolist() == pytest.approx([0.25, -0.25])
    assert label_directions(logits, torch.tensor([1]))[0, 0].tolist() == pytest.approx([-0.75, 0.75])


def test_labels_are_drawn_as_often_as_they_are_likely_and_by_place() -> None:
    logits = torch.tensor([[math.log(6.0), math.log(3.0), 0.0]]).expand(6000, 3)
    drawn = drawn_labels(logits, range(6000), 0, "photos")
    shares = torch.bincount(drawn, minlength=3) / 6000
    assert shares.tolist() == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    assert torch.equal(drawn[100:200], drawn_labels(logits[:100], range(100, 200), 0, "photos"))
    assert not torch.equal(drawn, drawn_labels(logits, range(6000), 1, "photos"))
