"""Which items can be worked on in the fused way.

Those whose every stage has a rule, whose models are stored in formats that the machine knows, and whose numbers are
read as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from smelt.engine.run.blocks import row_length
from smelt.engine.run.cpu.fold_pass import can_look
from smelt.engine.run.cpu.program import FORMATS
from smelt.engine.run.cpu.rules.registry import RULES

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, RunStage, Tap

__all__ = ["Takes", "held", "stored"]

_ROWS = (64, 1 << 16)
_COUNTED = 1 << 32
"""Elements of a tensor that one key of the random numbers counts."""


class Takes:
    """Called with an item, says whether it can; pipelines are looked at once."""

    def __init__(self, readable: Callable[[Tap], bool] | None = None) -> None:
        """`readable` says whose numbers can be read as they are stored; by default those that a source holds."""
        self._readable = readable or held
        self._known: dict[tuple[int, ...], bool] = {}

    def __call__(self, item: Item) -> bool:
        if item.copied:
            assert item.base is not None
            return item.base.source.holds(item.base.key) and stored(item.base) == item.info.dtype
        return (
            self._fits(item)
            and not item.statistics
            and item.info.count <= _COUNTED
            and item.info.dtype in FORMATS
            and all(stored(tap) in FORMATS and self._readable(tap) for tap in item.all_taps)
            and self._have_rules(item.stages)
            and not (item.matrices and item.matrices.transposed and _draws(item.stages))
        )

    @staticmethod
    def _fits(item: Item) -> bool:
        """Elements always; rows where a register can hold one, and where they are worth it."""
        return item.unit == "element" or (item.unit == "row" and _ROWS[0] <= row_length(item.info.shape) <= _ROWS[1])

    def _have_rules(self, stages: tuple[RunStage, ...]) -> bool:
        key = tuple(id(run) for run in stages)
        if key not in self._known:
            self._known[key] = stages[-1].stage.kind == "method" and all(map(_has_rule, stages))
        return self._known[key]


def _draws(stages: tuple[RunStage, ...]) -> bool:
    """Whether random numbers are drawn, which the machine does for one element after the other as they are stored."""
    return any(RULES[run.stage.name].draws for run in stages)


def held(tap: Tap) -> bool:
    """Whether a tensor's bytes can be read."""
    return tap.source.holds(tap.key)


def stored(tap: Tap) -> str:
    """The format in which a tensor is stored."""
    return tap.source.tensors[tap.key].dtype


def _has_rule(run: RunStage) -> bool:
    rule = RULES.get(run.stage.name)
    ours = run.stage.function.__module__.startswith("smelt.methods.")
    if rule is None or not ours or not rule.takes(run.parameters):
        return False
    return can_look(run.stage.fold_for(run.parameters), rule)
