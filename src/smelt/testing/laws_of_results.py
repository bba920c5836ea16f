"""Laws about what comes out: whatever the order of the models, their number, their format and what they hold."""

from __future__ import annotations

from typing import Any

import torch

from smelt.engine.merge import Options, merge_to_memory, plan_to_memory, planned
from smelt.engine.request import read_request
from smelt.engine.scales import at_scale, change_plan
from smelt.methods import Stage
from smelt.testing.compare import assert_equal, assert_near
from smelt.testing.law import law
from smelt.testing.pico import BUFFER, Pico, pico
from smelt.testing.trial import merged_by, pipeline_of, pool_for, registered, statistics_for

__all__: list[str] = []

_SCALES = (0.0, 0.37, -1.7)


@law
def law_scale(stage: Stage, **parameters: Any) -> None:
    """A stage that says so gives every scale as the base and so many times one change: one merge gives all.

    merged(s) = base + s * change      to the bit for a method; up to a few roundings behind a wrapper or a basis
    """
    pool, same = pool_for(stage), assert_equal if stage.kind == "method" else assert_near
    method, words = pipeline_of(stage, parameters), statistics_for(stage, pool)
    with registered(stage):
        recipe, _, opened = read_request(pool.models, pool.base, method, words)
        with planned(recipe, pool=opened) as ready:
            changes = plan_to_memory(change_plan(ready.plan), Options())
        for scale in _SCALES:
            with planned(at_scale(recipe, scale), pool=opened) as ready:
                got = merge_to_memory(ready, Options())
            moved = {name: pool.base[name] + change * scale for name, change in changes.items()}
            expected = {name: moved.get(name, pool.base[name]) for name in got}
            same(
                got, expected, f"{stage.name} at scale {scale} is not base + scale * change, as it says by `stretches`"
            )


@law
def law_order(stage: Stage, **parameters: Any) -> None:
    """The order of the models does not matter, up to the rounding of sums."""
    pool = pool_for(stage)
    expected = merged_by(stage, pool, **parameters)
    for other in (pool.reversed, pool.rotated):
        got = merged_by(stage, other, **parameters)
        assert_near(got, expected, f"{stage.name} depends on the order of the models")


@law
def law_copies(stage: Stage, **parameters: Any) -> None:
    """Copies of one model give that model back, however many there are."""
    pool = pool_for(stage)
    first = next(iter(pool.models.values()))
    low, high = stage.models
    for count in sorted({low, high or 4}):
        copies = Pico(pool.base, {f"copy-{number}": dict(first) for number in range(count)})
        expected = {**first, BUFFER: pool.base[BUFFER]}
        got = merged_by(stage, copies, **parameters)
        assert_near(got, expected, f"{stage.name} of {count} equal models is not that model", ulps=32)


@law
def law_zero(stage: Stage, **parameters: Any) -> None:
    """Models that did not move from the base give the base back."""
    pool = pool_for(stage)
    still = Pico(pool.base, {name: dict(pool.base) for name in pool.models})
    got = merged_by(stage, still, **parameters)
    assert_near(got, pool.base, f"{stage.name} of models equal to the base is not the base")


@law
def law_single(stage: Stage, **parameters: Any) -> None:
    """One model alone can be merged, and the result has its tensors."""
    pool = pico(1)
    got = merged_by(stage, pool, **parameters)
    shapes = {name: tuple(tensor.shape) for name, tensor in got.items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in pool.base.items()}
    assert shapes == wanted, f"{stage.name} of one model has other tensors than the model"


@law
def law_integers(stage: Stage, **parameters: Any) -> None:
    """Integers are the base's: a step counter or a table of positions has no mean."""
    pool = pool_for(stage)
    got = merged_by(stage, pool, **parameters)[BUFFER]
    assert torch.equal(got, pool.base[BUFFER]), f"{stage.name} changed the integers of {BUFFER!r}: {got.tolist()}"


@law
def law_dtype(stage: Stage, **parameters: Any) -> None:
    """The format of the numbers is kept, and half precision is rounded once, at the end of float32 arithmetic."""
    exact = {torch.float32: merged_by(stage, pool_for(stage), **parameters)}
    exact[torch.float64] = exact[torch.float32]  # pico numbers are drawn in float32, so float64 holds the same ones
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        pool = pool_for(stage).to(dtype)
        got = merged_by(stage, pool, **parameters)
        for name, tensor in got.items():
            wanted = pool.base[name].dtype
            assert tensor.dtype == wanted, f"{stage.name} turned {name!r} from {wanted} into {tensor.dtype}"
        same_numbers = exact.get(dtype) or merged_by(stage, pool.to(torch.float32), **parameters)
        rounded = Pico(same_numbers, {}).to(dtype).base
        assert_equal(got, rounded, f"{stage.name} in {dtype} is not its float32 result rounded once")


@law
def law_finite(stage: Stage, **parameters: Any) -> None:
    """Tensors that are zero, untouched, opposite, of rank one, tiny or huge give numbers, not NaN or infinity."""
    pool = difficult(pool_for(stage))
    for name, tensor in merged_by(stage, pool, **parameters).items():
        assert bool(torch.isfinite(tensor).all()), f"{stage.name} gives NaN or infinity in {name!r}"


def difficult(pool: Pico) -> Pico:
    """What real checkpoints hold now and then, one tensor each."""
    base, models = dict(pool.base), {name: dict(state) for name, state in pool.models.items()}
    block = "model.layers.0"
    shape = base[f"{block}.mlp.up_proj.weight"].shape
    for number, state in enumerate(models.values()):
        sign = -1.0 if number % 2 else 1.0
        for zero in (f"{block}.self_attn.q_proj.bias", f"{block}.mlp.gate_proj.weight"):
            base[zero] = state[zero] = torch.zeros_like(base[zero])
        for still in (f"{block}.self_attn.k_proj.weight", f"{block}.input_layernorm.weight"):
            state[still] = base[still]
        if number:
            state[f"{block}.self_attn.v_proj.weight"] = base[f"{block}.self_attn.v_proj.weight"]
        opposite = f"{block}.self_attn.o_proj.weight"
        state[opposite] = base[opposite] + sign * 2.0**-10
        rank_one = torch.outer(torch.linspace(-1, 1, shape[0]), torch.linspace(0, 1, shape[1])) * (number + 1) / 64
        state[f"{block}.mlp.up_proj.weight"] = base[f"{block}.mlp.up_proj.weight"] + rank_one
        tiny = f"{block}.mlp.down_proj.weight"
        base[tiny], state[tiny] = torch.zeros_like(base[tiny]), torch.full_like(base[tiny], 1e-42)
        state["lm_head.weight"] = state["lm_head.weight"] * 1e6
    return Pico(base, models)
