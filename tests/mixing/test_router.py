from __future__ import annotations

import torch

from smelt.mixing.router import Router


def _by_hand() -> Router:
    """One number in, two experts: g = mean_t relu(2 h - 1) · (1, -3) + (0.5, 0)."""
    router = Router(1, 2)
    with torch.no_grad():
        router.first.weight.fill_(2.0)
        router.first.bias.fill_(-1.0)
        router.last.weight.copy_(torch.tensor([[1.0], [-3.0]]))
        router.last.bias.copy_(torch.tensor([0.5, 0.0]))
    return router


def test_gates_are_the_mean_over_a_samples_own_tokens() -> None:
    """Tokens 1 and 3 give relu 1 and 5, mean 3; tokens 0 and 0 give 0."""
    gates = _by_hand()(torch.tensor([[[1.0], [3.0]], [[0.0], [0.0]]]))
    assert gates.tolist() == [[3.5, -9.0], [0.5, 0.0]]


def test_a_sample_without_tokens_is_routed_as_one_token() -> None:
    assert _by_hand()(torch.tensor([[2.0]])).tolist() == [[3.5, -9.0]]


def test_only_the_largest_gates_are_kept_and_they_are_not_rescaled() -> None:
    router = _by_hand()
    router.top = 1
    gates = router(torch.tensor([[[1.0], [3.0]], [[0.0], [0.0]]]))
    assert gates.tolist() == [[0.0, -9.0], [0.5, 0.0]]


def test_as_many_as_there_are_experts_keeps_all() -> None:
    router = _by_hand()
    router.top = 2
    assert router(torch.tensor([[2.0]])).tolist() == [[3.5, -9.0]]


def test_gates_that_were_dropped_teach_nothing() -> None:
    router = _by_hand()
    router.top = 1
    router(torch.tensor([[2.0]])).sum().backward()
    assert router.last.bias.grad is not None
    assert router.last.bias.grad.tolist() == [0.0, 1.0]


def test_a_router_begins_at_the_scale() -> None:
    router = Router.begin(64, 5, scale=0.3, seed=0, place="a")
    gates = router(torch.randn(10, 4, 64, generator=torch.Generator().manual_seed(1)))
    assert (gates - 0.3).abs().max() < 0.01
    assert 0.008 < router.first.weight.std() < 0.012
    assert router.first.bias.abs().max() == 0


def test_its_start_belongs_to_seed_and_place() -> None:
    starts = [
        Router.begin(4, 2, scale=0.3, seed=seed, place=place).first.weight
        for seed, place in ((0, "a"), (0, "a"), (0, "b"), (1, "a"))
    ]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    assert not torch.equal(starts[0], starts[3])
