from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from mixing_by_hand import Tiny, tiny, tuned
from smelt.errors import IncompatibleModels, NumericalError, RecipeError
from smelt.mixing.network import mixed_network
from smelt.mixing.wemoe import WeMoE
from smelt.models.families.network import ModuleNetwork


class OneNumber(nn.Module):
    """Scale times MLP of x, where the MLP is a single linear layer 1 -> 1."""

    def __init__(self, scale: float, weight: float, bias: float):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.mlp = nn.Linear(1, 1)
        with torch.no_grad():
            self.mlp.weight.fill_(weight)
            self.mlp.bias.fill_(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.mlp(x)


def _gates(mixed: object, *values: float) -> None:
    """Make every router say these gates whatever it is shown."""
    with torch.no_grad():
        for router in mixed.routers.values():  # type: ignore[attr-defined]
            router.last.weight.zero_()
            router.last.bias.copy_(torch.tensor(values))


def test_the_mlp_is_mixed_by_gates_and_the_rest_by_the_scale() -> None:
    """Rest: 2 + 0.5 (1 + 3) = 4. MLP at gates (2, -1): weight 1 + 2·1 - 1·4 = -1, bias 0 + 2·1 - 1·2 = 0."""
    base = OneNumber(2, 1, 0)
    experts = {"a": OneNumber(3, 2, 1), "b": OneNumber(5, 5, 2)}
    mixed = mixed_network(ModuleNetwork(base), experts, routed="mlp", settings=WeMoE(scale=0.5))
    _gates(mixed, 2.0, -1.0)
    assert mixed.logits(torch.tensor([[[7.0]]]), None).item() == pytest.approx(4 * (-1 * 7 + 0))


def test_at_the_start_it_is_task_arithmetic() -> None:
    base, experts = tiny(), {name: tuned(tiny(), seed) for seed, name in enumerate("abc", 1)}
    merged = tiny()
    own = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    merged.load_state_dict({k: v + 0.2 * sum(e[k] - v for e in experts.values()) for k, v in own.items()})
    mixed = mixed_network(ModuleNetwork(base), experts, routed="blocks.*.mlp", settings=WeMoE(scale=0.2))
    _gates(mixed, 0.2, 0.2, 0.2)
    x = torch.randn(5, 4, 6)
    torch.testing.assert_close(mixed.logits(x, None), merged(x), rtol=1e-4, atol=1e-5)


def test_a_gate_of_one_gives_the_experts_own_mlps() -> None:
    base, expert = tiny(), tuned(tiny(), 1)
    alone = tiny()
    alone.load_state_dict(expert)
    settings = WeMoE(scale=1.0)
    mixed = mixed_network(ModuleNetwork(base), {"only": expert}, routed="blocks.*.mlp", settings=settings)
    _gates(mixed, 1.0)
    x = torch.randn(3, 4, 6)
    torch.testing.assert_close(mixed.logits(x, None), alone(x), rtol=1e-4, atol=1e-5)


@pytest.fixture
def mixture() -> object:
    """A mixture whose gates differ much between samples."""
    mixed = mixed_network(
        ModuleNetwork(tiny()), {name: tuned(tiny(), seed) for seed, name in enumerate("abc", 1)}, routed="blocks.*.mlp"
    )
    with torch.no_grad():
        for number, router in enumerate(mixed.routers.values()):
            draw = torch.Generator().manual_seed(number)
            for tensor in router.parameters():
                tensor.normal_(0, 0.5, generator=draw)
    return mixed


def test_routing_does_not_depend_on_the_batch(mixture: object) -> None:
    x = torch.randn(64, 4, 6, generator=torch.Generator().manual_seed(3))
    whole = mixture.logits(x, None)  # type: ignore[attr-defined]
    for size in (1, 3):
        parts = torch.cat([mixture.logits(part, None) for part in x.split(size)])  # type: ignore[attr-defined]
        torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)


def test_another_order_of_samples_gives_the_same_answers_in_that_order(mixture: object) -> None:
    x = torch.randn(20, 4, 6, generator=torch.Generator().manual_seed(3))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(4))
    here, there = mixture.logits(x, None), mixture.logits(x[order], None)  # type: ignore[attr-defined]
    torch.testing.assert_close(there, here[order], rtol=1e-5, atol=1e-5)
    assert (here - here[order]).abs().max() > 0.1


def test_threads_do_not_disturb_each_other(mixture: object) -> None:
    parts = torch.randn(40, 3, 4, 6).unbind()
    alone = [mixture.logits(part, None) for part in parts]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda part: mixture.logits(part, None), parts))  # type: ignore[attr-defined]
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_pruned_changes_keep_the_largest_entries_of_every_expert() -> None:
    base, expert = OneNumber(0, 0, 0), OneNumber(0, 0, 0)
    base.mlp, expert.mlp = nn.Linear(4, 1, bias=False), nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        base.mlp.weight.zero_()
        expert.mlp.weight.copy_(torch.tensor([[1.0, -4.0, 2.0, -3.0]]))
    mixed = mixed_network(ModuleNetwork(base), {"a": expert}, routed="mlp", settings=WeMoE(density=0.5))
    assert mixed.deltas["mlp.weight"].tolist() == [[[0.0, -4.0, 0.0, -3.0]]]


def test_changes_are_kept_in_the_format_that_was_asked_for() -> None:
    mixed = mixed_network(
        ModuleNetwork(tiny()), {"a": tuned(tiny(), 1)}, routed="blocks.*.mlp", settings=WeMoE(delta_dtype="bfloat16")
    )
    assert {tensor.dtype for tensor in mixed.deltas.values()} == {torch.bfloat16}
    assert mixed.logits(torch.randn(2, 4, 6), None).dtype == torch.float32


def test_keys_that_are_not_merged_stay_the_bases() -> None:
    base, expert = tiny(), tuned(tiny(), 1)
    own = base.score.weight.detach().clone()
    keys = [key for key in base.state_dict() if not key.startswith("score.")]
    mixed_network(ModuleNetwork(base), {"a": expert}, routed="blocks.*.mlp", keys=keys)
    assert torch.equal(base.score.weight, own)


def test_only_routers_are_learned() -> None:
    mixed = mixed_network(ModuleNetwork(tiny()), {"a": tuned(tiny(), 1)}, routed="blocks.*.mlp")
    learned = {name for name, tensor in mixed.network.module.named_parameters() if tensor.requires_grad}
    assert len(learned) == len(mixed.parameters) == 8
    assert all(".router." in name for name in learned)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("blocks.*.mpl", r"no module is named like 'blocks.\*.mpl'"),
        ("blocks.*", "means 'blocks.0.look' and a module around it"),
        ("blocks.0.mlp.1", "'blocks.0.mlp.1' has no linear layer"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        mixed_network(ModuleNetwork(tiny()), {"a": tuned(tiny(), 1)}, routed=pattern)


def test_models_that_do_not_fit_are_refused_with_every_reason() -> None:
    short, wide = tuned(tiny(), 1), tuned(Tiny(width=8), 1)
    del short["score.bias"]
    with pytest.raises(IncompatibleModels) as error:
        mixed_network(ModuleNetwork(tiny()), {"short": short, "wide": wide}, routed="blocks.*.mlp")
    assert "'score.bias' of the base is missing from short" in str(error.value)
    assert "'blocks.0.look.weight' is (6, 6) in the base but (8, 8) in wide (and 12 more tensors)" in str(error.value)


def test_an_expert_with_nan_is_refused() -> None:
    expert = tuned(tiny(), 1)
    expert["blocks.0.mlp.0.weight"][0, 0] = float("nan")
    with pytest.raises(NumericalError, match=r"'blocks.0.mlp.0.weight' of .* holds NaN"):
        mixed_network(ModuleNetwork(tiny()), {"a": expert}, routed="blocks.*.mlp")


def test_a_routed_layer_outside_the_merged_keys_is_refused() -> None:
    with pytest.raises(RecipeError, match="is routed, but it is not among the tensors that are merged"):
        mixed_network(ModuleNetwork(tiny(), ["score.weight"]), {"a": tuned(tiny(), 1)}, routed="blocks.*.mlp")
