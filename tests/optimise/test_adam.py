"""Adam, one parameter at a time."""

from __future__ import annotations

import torch

from smelt.optimise import adam
from smelt.optimise.adam import Adam


def test_the_first_step_is_the_learning_rate_whatever_the_gradient() -> None:
    parameters = {"a": torch.tensor([1.0, 1.0])}
    own = Adam(parameters, 0.1)
    own.step({"a": torch.tensor([5.0, -0.01])})
    torch.testing.assert_close(parameters["a"], torch.tensor([0.9, 1.1]))  # m̂ / sqrt v̂ is the sign


def test_parameters_one_by_one_have_the_bytes_of_torchs_optimiser_for_all() -> None:
    draw = torch.Generator().manual_seed(0)
    ours = {name: torch.randn(37, 5, generator=draw) for name in "ab"}
    theirs = {name: tensor.clone() for name, tensor in ours.items()}
    own, other = Adam(ours, 0.05), torch.optim.Adam(theirs.values(), lr=0.05)
    for _ in range(5):
        gradients = {name: torch.randn(37, 5, generator=draw) for name in "ab"}
        for name, gradient in gradients.items():
            own.step({name: gradient.clone()})
            theirs[name].grad = gradient
        other.step()
    assert all(torch.equal(ours[name], theirs[name]) for name in "ab")
    assert torch.equal(own.moments("a")["exp_avg_sq"], other.state[theirs["a"]]["exp_avg_sq"])
    assert float(own.moments("a")["step"]) == 5


def test_what_was_kept_goes_on_as_if_nothing_had_happened() -> None:
    draw = torch.Generator().manual_seed(0)
    whole, first = ({"a": torch.ones(6)} for _ in range(2))
    gradients = [torch.randn(6, generator=draw) for _ in range(4)]
    own, begun = Adam(whole, 0.1), Adam(first, 0.1)
    for gradient in gradients:
        own.step({"a": gradient})
    for gradient in gradients[:2]:
        begun.step({"a": gradient})
    resumed = Adam(first, 0.1)
    resumed.restore("a", begun.moments("a"))
    for gradient in gradients[2:]:
        resumed.step({"a": gradient})
    assert torch.equal(first["a"], whole["a"])


def test_a_parameter_that_travels_in_pieces_arrives_where_it_would_have(monkeypatch) -> None:
    monkeypatch.setattr(adam, "PIECE", 4)
    draw = torch.Generator().manual_seed(0)
    start, gradient = torch.randn(2, 5, generator=draw), torch.randn(2, 5, generator=draw)
    whole, pieces = ([start.clone(), torch.ones(2, 5), torch.ones(2, 5)] for _ in range(2))
    adam._advance(whole[0], gradient, whole[1], whole[2], 3.0, 0.1)
    adam._there_and_back(pieces, gradient, 3.0, 0.1)
    assert not torch.equal(whole[0], start)
    for one, other in zip(pieces, whole, strict=True):
        torch.testing.assert_close(one, other)
