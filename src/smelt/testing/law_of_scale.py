"""The law of stages that stretch: one merge gives all scales.

    merged(s) = base + s * change        to the bit for a method; up to a few roundings behind a wrapper or a basis

The left side is a merge, the right side the equation as it stands here, in float32.
"""

from __future__ import annotations

from typing import Any

from smelt.engine.merge import Options, merge_to_memory, plan_to_memory, planned
from smelt.engine.request import read_request
from smelt.engine.scales import at_scale, change_plan
from smelt.methods import Stage
from smelt.testing.compare import assert_equal, assert_near
from smelt.testing.law import law
from smelt.testing.trial import pipeline_of, pool_for, registered, statistics_for

__all__: list[str] = []

_SCALES = (0.0, 0.37, -1.7)


@law
def law_scale(stage: Stage, **parameters: Any) -> None:
    """A stage that says so gives every scale as the base and so many times one change."""
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
