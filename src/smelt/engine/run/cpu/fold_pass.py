"""What a pass over a span gathers, by the vector machine instead of torch: parts of folds, and factors of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from smelt.engine.run.cpu.machine import ProgramRun
from smelt.ops.bracket import EVERYTHING, BracketCounts
from smelt.ops.fold import Chain, Fold, RowNumbers, Totals
from smelt.ops.geometry import gram
from smelt.ops.order import Inside, Largest
from smelt.ops.prune import DrawnMask, RestoredMagnitude, SquaredNorms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rule_table import RuleCall, StageRule
    from smelt.ops.block import Place

__all__ = ["ReadPart", "RowFactors", "add_fold", "can_fold", "shared_request", "wanted_share"]


class PassResult(Protocol):
    """A pass that is over."""

    def count(self, op: int) -> int:
        """What an operation that counts has found."""


Where: TypeAlias = tuple[int, int]
"""The order of a tensor and the first element of a span of it."""
ReadPart: TypeAlias = Callable[[PassResult, Where], Any]
"""Makes the fold's part of a finished pass over a span that begins there."""


def can_fold(fold: Fold | None, rule: StageRule) -> bool:
    """Whether all passes of a fold can be done so."""
    if isinstance(fold, Chain):
        return can_fold(fold.first, rule) and can_fold(fold.second, rule)
    if isinstance(fold, RestoredMagnitude | DrawnMask | SquaredNorms):
        return rule.emit_pruned is not None or rule.emit_masks is not None
    if isinstance(fold, RowNumbers):
        return rule.emit_row_numbers is not None
    if fold is None or fold.passes == 0:
        return True
    return isinstance(fold, Largest) or (isinstance(fold, Totals) and fold.of is gram)


def wanted_share(fold: Fold) -> float:
    """Which share of the entries the fold's next pass wants to see."""
    if isinstance(fold, Chain):
        fold = fold.current
    return fold.share if isinstance(fold, Largest) and fold.step == "sample" else 1.0


def shared_request(fold: Fold) -> object:
    """What the fold's next pass gathers, where that is the same of every tensor; else None."""
    if isinstance(fold, Chain):
        if fold.current is fold.second:  # which looks at what the first has found here
            return None
        fold = fold.current
    if isinstance(fold, Largest):
        if fold.step == "sample" or (fold.step == "bracket" and fold.scope == "model"):
            return fold.step, fold.skips_zeros, *((t.row, t.ends) for per_row in fold.targets for t in per_row)
        return None
    return "gram" if isinstance(fold, Totals) and fold.of is gram else None


def add_fold(
    fold: Fold, rule: StageRule, program: Program, rows: Sequence[int], call: RuleCall, count: int
) -> ReadPart:
    """Add to a program what the fold's next pass gathers from these rows."""
    if isinstance(fold, Chain):
        if fold.current is fold.second:
            call = replace(call, found=fold.first.at(call.place))
        fold = fold.current
    if isinstance(fold, RowNumbers):
        return _numbers(rule, program, rows, call)
    if isinstance(fold, Largest):
        return _ranks(fold, program, rule.emit_ranked(program, rows, call), count)
    if isinstance(fold, RestoredMagnitude | DrawnMask):
        return _masses(fold, rule, program, rows, call)
    if isinstance(fold, SquaredNorms):
        return _squares(fold, rule, program, rows, call, count)
    return _gram(program, rows)


def _ranks(fold: Largest, program: Program, rows: Sequence[int], count: int) -> ReadPart:
    if fold.step == "sample":
        seen = [program.bracket(row, EVERYTHING, count, fold.skips_zeros) for row in rows]
        return lambda run, where: [_met(run, one, where) for one in seen]
    if fold.step == "bracket":
        asked = [target for per_row in fold.targets for target in per_row]
        seen = [program.bracket(rows[target.row], target.ends, count, fold.skips_zeros) for target in asked]
        return lambda run, where: [_met(run, one, where) for one in seen]
    if fold.step == "coarse":
        counts = [program.coarse(row) for row in rows]
        return lambda run, where: [one.view(np.int32) for one in counts]
    targets = [target for per_row in fold.targets for target in per_row]
    if fold.step == "fine":
        found = [program.fine(rows[target.row], target.low, count) for target in targets]
        return lambda run, where: [Inside(bits[: run.count(op)].copy(), where) for op, bits in found]
    ops = [program.equal(rows[t.row], t.value) if t.partial and not t.before else None for t in targets]
    return lambda run, where: [[] if op is None else [(where, run.count(op))] for op in ops]


def _met(run: PassResult, one: tuple[int, NDArray[np.uint32]], where: tuple[int, int]) -> BracketCounts:
    op, found = one
    above, top, bottom, tiny = (int(count) for count in found[:8].view(np.int64))
    inside = found[8 : 8 + run.count(op)].copy()
    return BracketCounts(above, tiny, [(where, top)], [(where, inside)], [(where, bottom)])


def _numbers(rule: StageRule, program: Program, rows: Sequence[int], call: RuleCall) -> ReadPart:
    assert rule.emit_row_numbers is not None
    found = rule.emit_row_numbers(program, rows, call)
    return lambda run, where: {call.place.start: found.astype(np.float32)}


def _masses(
    fold: RestoredMagnitude | DrawnMask, rule: StageRule, program: Program, rows: Sequence[int], call: RuleCall
) -> ReadPart:
    bits = np.empty((len(rows), 0), np.uint8)
    if rule.emit_masks is not None:
        kept = rule.emit_masks(program, rows, call)
        bits = np.zeros((len(rows), -(-(call.place.stop - call.place.start) // 8)), np.uint8)
        for mask, one in zip(kept, bits, strict=True):
            program.pack(mask, one)
    else:
        assert rule.emit_pruned is not None
        kept = rule.emit_pruned(program, rows, _found(fold, call))
    sums = [program.masses(row, one) for row, one in zip(rows, kept, strict=True)]

    def part(run: PassResult, where: Where) -> Any:
        total = np.stack(sums, axis=1)
        return (total, {call.place.start: bits}) if isinstance(fold, DrawnMask) else total

    return part


def _squares(
    fold: SquaredNorms, rule: StageRule, program: Program, rows: Sequence[int], call: RuleCall, count: int
) -> ReadPart:
    assert rule.emit_pruned is not None
    sums = [program.dot(row, row) for row in rule.emit_pruned(program, rows, _found(fold, call))]
    return lambda run, where: np.concatenate([*sums, [float(count)]])


def _found(fold: RestoredMagnitude | DrawnMask | SquaredNorms, call: RuleCall) -> RuleCall:
    return replace(call, found=None if isinstance(fold, DrawnMask) else fold.known(call.place))


def _gram(program: Program, rows: Sequence[int]) -> ReadPart:
    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1)]
    if len(rows) == 3:
        six = program.dots(*rows)
        products = [(i, j, six[n : n + 1]) for n, (i, j) in enumerate(pairs)]
    else:
        products = [(i, j, program.dot(rows[i], rows[j])) for i, j in pairs]

    def part(run: PassResult, where: Where) -> Any:
        out = np.empty((len(rows), len(rows)))
        for i, j, product in products:
            out[i, j] = out[j, i] = product[0]
        return out

    return part


class RowFactors:
    """What the rows of a span are multiplied with, filled in block by block."""

    def __init__(
        self,
        program: Program,
        rows: Sequence[int],
        formats: Sequence[str],
        place: Place,
        factors_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ):
        count = (place.stop - place.start) // program.width
        pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1)]
        self._products = [(i, j, program.row_dot(rows[i], rows[j], count)) for i, j in pairs]
        self._width, self._factors_of, self._done = program.width, factors_of, 0
        self._run = ProgramRun(program, formats)
        models = len(rows)
        self._grams = np.empty((count, models, models))
        self.factors = [np.zeros(count, np.float32) for _ in range(factors_of(np.ones((1, models, models))).shape[1])]
        """One array for each factor that a row has; known of the rows that were fed."""

    def feed(self, taps: Sequence[NDArray[np.uint8]], count: int) -> None:
        """Find the factors of the next rows. What is not finite is told of by the pass that merges them."""
        if self._run.feed(taps, count):
            return
        now = slice(self._done, self._done + count // self._width)
        for i, j, product in self._products:
            self._grams[now, i, j] = self._grams[now, j, i] = product[now]
        found = self._factors_of(self._grams[now])
        for factors, column in zip(self.factors, found.T, strict=True):
            factors[now] = column
        self._done = now.stop
