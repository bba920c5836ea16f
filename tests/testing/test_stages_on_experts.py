"""Every stage gives a mixture of experts the same numbers in both of its layouts, and passes a law's trial on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from smelt.methods import stages
from smelt.testing.made_up import made_up
from smelt.testing.pico import Pico, State, pico_of
from smelt.testing.trial import count_for, merged_by

EXPERTS, WIDTH, INNER = 3, 8, 6


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (24, WIDTH)
    for layer in range(2):
        block = f"model.layers.{layer}"
        yield f"{block}.input_layernorm.weight", (WIDTH,)
        yield f"{block}.mlp.gate.weight", (EXPERTS, WIDTH)
        yield f"{block}.mlp.shared_expert.up_proj.weight", (INNER, WIDTH)
        for expert in range(EXPERTS):
            inside = f"{block}.mlp.experts.{expert}"
            yield f"{inside}.down_proj.weight", (WIDTH, INNER)
            yield f"{inside}.gate_proj.weight", (INNER, WIDTH)
            yield f"{inside}.up_proj.weight", (INNER, WIDTH)


def stacked(state: State) -> dict[str, Tensor]:
    """By hand, as a module of transformers 5 has it."""
    made = {name: tensor for name, tensor in state.items() if ".experts." not in name}
    for layer in range(2):
        inside = f"model.layers.{layer}.mlp.experts"
        gate, up, down = (
            torch.stack([state[f"{inside}.{expert}.{kind}_proj.weight"] for expert in range(EXPERTS)])
            for kind in ("gate", "up", "down")
        )
        made[f"{inside}.gate_up_proj"] = torch.cat([gate, up], dim=1)
        made[f"{inside}.down_proj"] = down
    return made


@pytest.mark.parametrize("name", sorted(stages))
def test_a_stage_does_not_see_how_experts_are_stored(name: str) -> None:
    stage = stages[name]
    apart = pico_of(shapes(), count_for(stage))
    together = Pico(stacked(apart.base), {name: stacked(state) for name, state in apart.models.items()})
    words = {"statistics": made_up(stage.statistics, apart)} if stage.statistics else None
    expected, got = stacked(merged_by(stage, apart, words=words)), merged_by(stage, together, words=words)
    assert got.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(got[key], tensor), key
