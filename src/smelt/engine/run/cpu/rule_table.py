"""The table of rules, and which items the vector machine can run.

Those whose every stage has a rule, whose models are stored in formats that the machine knows, and whose numbers are
read as they are stored. A stage without a rule, or with options that its rule does not take, runs in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.engine.run.cpu import rules
from smelt.engine.run.cpu.fold_pass import can_fold
from smelt.engine.run.cpu.machine import FORMATS
from smelt.ops.random import place_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.plan.plan import Item, RunStage, Tap
    from smelt.engine.run.cpu.program import Program
    from smelt.ops.block import Place

__all__ = ["RULES", "Emit", "FactorsOfGrams", "Rows", "RuleCall", "StageRule", "Support", "is_readable", "stored_dtype"]

Rows: TypeAlias = Sequence[int]
"""Registers, one for each model."""


@dataclass(frozen=True)
class RuleCall:
    """Where and with what a stage is called."""

    place: Place
    seed: int
    position: int
    parameters: Mapping[str, Any]
    found: Any = None
    """What its fold has found for this place."""
    base: int | None = None
    """The register of the base, where there is one."""

    def column(self, name: str) -> list[float]:
        """A parameter that each model has, rounded as torch would."""
        return list(np.array(self.parameters[name], np.float32).tolist())

    def key(self, model: str) -> tuple[int, int]:
        """Counter and key of a model's random numbers at the first element of this place."""
        high, low = divmod(self.place.start, 1 << 32)
        counter, key = place_key(self.seed, self.position, self.place.key, model, high)
        return counter + low, key


Emit: TypeAlias = "Callable[[Program, Rows, RuleCall], Any]"
FactorsOfGrams: TypeAlias = "Callable[[NDArray[np.float64], Mapping[str, Any]], NDArray[np.float64]]"
"""From the Gram matrices [rows, models, models] and the parameters to factors [rows, factors]."""


def _always(parameters: Mapping[str, Any]) -> bool:
    return True


def _same_rows(program: Program, rows: Rows, call: RuleCall) -> Rows:
    return rows


@dataclass(frozen=True)
class StageRule:
    """How a stage is run: a step gives rows, a method the register of the merged values.

    Functions named `emit_*` write operations for passes of the stage's fold, before `emit` merges.
    """

    emit: Emit
    accepts: Callable[[Mapping[str, Any]], bool] = _always
    """Whether it can run with these parameters."""
    emit_ranked: Emit = _same_rows
    """The registers whose magnitudes its fold ranks."""
    emit_pruned: Emit | None = None
    """The rows that it leaves before their summed magnitude is restored; `found` is then what the ranks gave."""
    emit_masks: Emit | None = None
    """What it keeps, as ones and zeros, where that is remembered: drawing it again would take longer."""
    emit_row_numbers: Emit | None = None
    """The array with a number for each row, which a fold asks for before anything else."""
    row_factors: FactorsOfGrams | None = None
    """What it multiplies each row with, where that is asked for: `found` are then the factors, one array for each."""
    is_random: bool = False
    """Whether it draws random numbers, so that it depends on the place beyond what its fold has found there."""


RULES: Mapping[str, StageRule] = {
    "average": StageRule(rules.average),
    "task_arithmetic": StageRule(rules.task_arithmetic),
    "slerp": StageRule(rules.weighted_by_fold),
    "nuslerp": StageRule(rules.nuslerp, accepts=rules.not_over_columns, row_factors=rules.nuslerp_row_factors),
    "multislerp": StageRule(rules.weighted_by_fold),
    "karcher": StageRule(rules.weighted_by_fold),
    "model_stock": StageRule(rules.model_stock, row_factors=rules.model_stock_row_factors),
    "passthrough": StageRule(rules.passthrough),
    "nearswap": StageRule(rules.nearswap),
    "ram": StageRule(rules.ram),
    "trim": StageRule(rules.with_restored_magnitude(rules.keep_largest), emit_pruned=rules.keep_largest),
    "breadcrumbs": StageRule(rules.with_restored_magnitude(rules.keep_band), emit_pruned=rules.keep_band),
    "dare": StageRule(rules.dare, emit_pruned=rules.keep_at_random, is_random=True),
    "della": StageRule(rules.della, emit_masks=rules.della_masks, is_random=True),
    "ties": StageRule(rules.ties),
    "arcee_fusion": StageRule(rules.arcee_fusion, emit_ranked=rules.importance, emit_row_numbers=rules.row_divergences),
    "sce": StageRule(rules.sce, emit_ranked=rules.variance, emit_pruned=rules.keep_selected),
}


_ROWS = (64, 1 << 16)
_COUNTED = 1 << 32
"""Elements of a tensor that one key of the random numbers counts."""


class Support:
    """Called with an item, says whether it can; pipelines are looked at once."""

    def __init__(self, readable: Callable[[Tap], bool] | None = None) -> None:
        """`readable` says whose numbers can be read as they are stored; by default those that a source holds."""
        self._readable = readable or is_readable
        self._known: dict[tuple[int, ...], bool] = {}

    def __call__(self, item: Item) -> bool:
        if item.copied:
            stored = stored_dtype(item.copied_from)
            same = stored == item.info.dtype or {stored, item.info.dtype} <= FORMATS.keys()
            return is_readable(item.copied_from) and same
        return (
            self._fits(item)
            and not item.statistics
            and item.info.count <= _COUNTED
            and item.info.dtype in FORMATS
            and all(stored_dtype(tap) in FORMATS and self._readable(tap) for tap in item.all_taps)
            and self._have_rules(item.stages)
            and not (item.matrices and item.matrices.transposed and _draw_random(item.stages))
        )

    @staticmethod
    def _fits(item: Item) -> bool:
        """Elements always; rows where a register can hold one, and where they are worth it."""
        return item.unit == "element" or (item.unit == "row" and _ROWS[0] <= item.row_length <= _ROWS[1])

    def _have_rules(self, stages: tuple[RunStage, ...]) -> bool:
        key = tuple(id(run) for run in stages)
        if key not in self._known:
            self._known[key] = stages[-1].stage.kind == "method" and all(map(_has_rule, stages))
        return self._known[key]


def _draw_random(stages: tuple[RunStage, ...]) -> bool:
    """Whether random numbers are drawn, which the machine does for one element after the other as they are stored."""
    return any(RULES[run.stage.name].is_random for run in stages)


def is_readable(tap: Tap) -> bool:
    """Whether a tensor's bytes can be read."""
    return tap.source.has_bytes(tap.key)


def stored_dtype(tap: Tap) -> str:
    """The format in which a tensor is stored."""
    return tap.source.tensors[tap.key].dtype


def _has_rule(run: RunStage) -> bool:
    rule = RULES.get(run.stage.name)
    ours = run.stage.function.__module__.startswith("smelt.methods.")
    if rule is None or not ours or not rule.accepts(run.parameters):
        return False
    return can_fold(run.stage.fold_for(run.parameters), rule)
