"""Laws about how models are stored: a merge is one of linear layers, not of the axes and files that they lie in.

merge(W_1^T, ..., W_n^T) = merge(W_1, ..., W_n)^T            merge(stack_i) = stack(merge_1, ..., merge_E)
"""

from __future__ import annotations

from typing import Any

from smelt.methods import Stage
from smelt.testing.compare import assert_equal, assert_near
from smelt.testing.law import law
from smelt.testing.made_up import made_up
from smelt.testing.pico import Pico, State
from smelt.testing.pico_stored import experts, linear_layers, stacked, turned
from smelt.testing.trial import count_for, filled, merged_by, sums_over_blocks

__all__: list[str] = []

_SUMMARIES = ("gram", "components")
"""Statistics that are the same whichever way a layer is stored."""


@law
def law_transposed(stage: Stage, **parameters: Any) -> None:
    """Linear layers that are stored as [in, out] give the transposed merge, drop for drop where there is chance."""
    pool = linear_layers(count_for(stage))
    other = Pico(turned(pool.base), {name: turned(state) for name, state in pool.models.items()})
    words: dict[str, Any] = {}
    if stage.statistics:
        found = made_up(stage.statistics, pool)
        keep = stage.statistics in _SUMMARIES
        words["statistics"] = {name: state if keep else turned(state) for name, state in found.items()}
    expected = turned(merged_by(stage, pool, **parameters))
    got = merged_by(stage, other, words=words, **parameters)
    _same(stage, parameters, got, expected, f"{stage.name} of layers stored as [in, out] is not its transposed merge")


@law
def law_stacked(stage: Stage, **parameters: Any) -> None:
    """A stack of experts gives the stack of their merges, also where each of them is stored as [in, out].

    Of stages that know rows or matrices, and of those that look at nothing but elements. A stage that takes any element
    and a number about the whole tensor takes that of the whole stack, and chance belongs to a tensor's name: of those
    the law says nothing.
    """
    values, fold = filled(stage, parameters)
    if "rng" in stage.asks or (stage.unit_for(values) == "element" and fold is not None and fold.scope == "tensor"):
        return
    pool = experts(count_for(stage))
    expected = stacked(merged_by(stage, pool, **parameters))
    found = made_up(stage.statistics, pool) if stage.statistics else {}
    for transposed in (False, True):
        other = Pico(
            stacked(pool.base, transposed=transposed),
            {name: stacked(state, transposed=transposed) for name, state in pool.models.items()},
        )
        turn = transposed and stage.statistics not in _SUMMARIES
        words = {"statistics": {name: stacked(state, transposed=turn) for name, state in found.items()}}
        got = merged_by(stage, other, words=words if found else None, **parameters)
        got = {name: tensor.mT if transposed and tensor.ndim == 3 else tensor for name, tensor in got.items()}
        how = "[in, out]" if transposed else "[out, in]"
        message = f"{stage.name} of a stack of experts ({how}) is not the stack of its merges of each"
        _same(stage, parameters, got, expected, message)


def _same(stage: Stage, parameters: dict[str, Any], got: State, expected: State, message: str) -> None:
    """To the bit, but for sums over a tensor, whose numbers come in another order."""
    if sums_over_blocks(stage, parameters):
        assert_near(got, expected, message, ulps=2)
    else:
        assert_equal(got, expected, message)
