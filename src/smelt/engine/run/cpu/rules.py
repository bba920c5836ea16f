"""What each stage is in operations of the vector machine: functions that write a stage's operations into a program.

The torch functions in `methods` are the definition; a rule does the same sums in the same order, so that both give the
same bits (tests/engine/run/cpu/test_backends_agree.py). A register is float32 [width], and operations work on each
of its elements. `rows` are registers, one for each model: their weights x_i or their changes d_i, as the stage's
`space` says. A step gives new rows, a method the one register of the merged values. `call.found` is what the stage's
fold has found for this span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.methods.means.arcee_fusion import standing_out
from smelt.methods.means.model_stock import step_length
from smelt.methods.means.nuslerp import row_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rule_table import Emit, Rows, RuleCall
    from smelt.ops.order import Cut

__all__ = [
    "arcee_fusion",
    "average",
    "dare",
    "della",
    "della_masks",
    "importance",
    "keep_at_random",
    "keep_band",
    "keep_largest",
    "keep_selected",
    "model_stock",
    "model_stock_row_factors",
    "nearswap",
    "not_over_columns",
    "nuslerp",
    "nuslerp_row_factors",
    "passthrough",
    "ram",
    "row_divergences",
    "sce",
    "task_arithmetic",
    "ties",
    "variance",
    "weighted_by_fold",
    "with_restored_magnitude",
]


def _normalised(call: RuleCall) -> list[float]:
    """The weights w_i, divided by their sum where `normalize` says so."""
    weights = np.array(call.parameters["weights"], np.float32)
    if call.parameters["normalize"]:
        exact = weights.astype(np.float64)
        with np.errstate(invalid="ignore"):  # what is no number is told of when it is met
            weights = (exact / exact.sum()).astype(np.float32)
    return list(weights.tolist())


def _scaled(program: Program, row: int, scale: float) -> int:
    """Scale * x, in its own register."""
    return row if scale == 1 else program.scale(row, scale, into=row)


def average(program: Program, rows: Rows, call: RuleCall) -> int:
    """sum_i w_i x_i"""
    return program.weighted_sum(rows, _normalised(call))


def task_arithmetic(program: Program, rows: Rows, call: RuleCall) -> int:
    """Scale * sum_i w_i d_i"""
    return _scaled(program, program.weighted_sum(rows, _normalised(call)), call.parameters["scale"])


def weighted_by_fold(program: Program, rows: Rows, call: RuleCall) -> int:
    """sum_i w_i x_i with the weights [models] that a fold has found (slerp, multislerp, karcher)."""
    return program.weighted_sum(rows, [float(weight) for weight in call.found])


def model_stock(program: Program, rows: Rows, call: RuleCall) -> int:
    """T * mean_i d_i, with one t for the tensor, or one for each row of the matrix."""
    mean = program.divide_by(program.total(rows), len(rows))
    if call.parameters["over"] == "row":
        return program.row_scale(mean, call.found[0])
    return program.scale(mean, float(call.found), into=mean)


def model_stock_row_factors(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    """The t of each row [rows, 1] from the Gram matrices [rows, models, models]."""
    return step_length(grams, parameters["floor"])[:, None]


def nuslerp(program: Program, rows: Rows, call: RuleCall) -> int:
    """U x_1 + v x_2, with one pair u, v for the tensor, or one for each row of the matrix."""
    if call.parameters["over"] == "tensor":
        return weighted_by_fold(program, rows, call)
    return program.total([program.row_scale(row, factors) for row, factors in zip(rows, call.found, strict=True)])


def nuslerp_row_factors(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    """U and v of each row [rows, 2] from the Gram matrices [rows, 2, 2]."""
    return row_weights(grams, [float(np.float32(weight)) for weight in parameters["weights"]])


def not_over_columns(parameters: Mapping[str, Any]) -> bool:
    """Whether nuslerp takes tensors or rows: the machine does not see columns."""
    return bool(parameters["over"] != "column")


def passthrough(program: Program, rows: Rows, call: RuleCall) -> int:
    """Scale * x_1"""
    return program.scale(rows[0], call.column("scale")[0])


def nearswap(program: Program, rows: Rows, call: RuleCall) -> int:
    """d_1 clamped to [-t, t]"""
    return program.clamp(rows[0], call.parameters["t"])


def ram(program: Program, rows: Rows, call: RuleCall) -> int:
    """sum_i m_i d_i / max(1, sum_i m_i) with m_i = [|d_i| > epsilon]"""
    present = [program.cut(row, call.parameters["epsilon"]) for row in rows]
    signs = [program.sign(row) for row in present]
    count = program.total([program.square(sign, into=sign) for sign in signs])
    return program.divide(program.total(present), program.at_least(count, 1.0))


def _bound(cut: Cut) -> float:
    """What a magnitude must exceed to pass a cut, ties aside."""
    return cut.value if cut.ties == 0 else cut.below


def _above_cut(program: Program, row: int, cut: Cut) -> int:
    """D where |d| passes the cut, else 0. A cut that keeps nothing has the bound infinity, one that keeps all has 0."""
    if cut.value == 0:
        return row
    return program.cut(row, _bound(cut), cut.value, cut.ties or None)


def keep_largest(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """d_i where |d_i| passes the cut of model i, else 0; all of it where there are no cuts (trim, TIES)."""
    cuts = call.found
    return [_above_cut(program, row, cut[0]) for row, cut in zip(rows, cuts, strict=True)] if cuts else rows


def _times(program: Program, rows: Rows, factors: Sequence[float]) -> Rows:
    """f_i d_i"""
    return [program.scale(row, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def with_restored_magnitude(prune: Emit) -> Emit:
    """A pruning, then the factors sum |d_i| / sum |pruned d_i| of each model where its fold has found such."""

    def emit(program: Program, rows: Rows, call: RuleCall) -> Rows:
        if not isinstance(call.found, tuple):
            pruned: Rows = prune(program, rows, call)
            return pruned
        found, factors = call.found
        return _times(program, prune(program, rows, replace(call, found=found)), factors)

    return emit


def keep_band(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """d_i where |d_i| passes the lower cut and not the upper one, else 0 (breadcrumbs)."""
    kept = []
    for row, (above, below) in zip(rows, call.found, strict=True):
        if below.value and above.value and not below.ties and not above.ties:
            kept.append(program.band(row, _bound(below), _bound(above)))
            continue
        kept.append(program.subtract(_above_cut(program, row, below), _above_cut(program, row, above)))
    return kept


def keep_at_random(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """d_i with the chance `density` of model i, else 0, by the random numbers of the place (DARE)."""
    kept = []
    for row, model, chance in zip(rows, call.place.models, call.column("density"), strict=True):
        kept.append(program.multiply(program.draw(chance, *call.key(model)), row))
    return kept


def dare(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """m_i d_i / density_i with m_i drawn at random; with `rescale: l1` times what restores the summed magnitude."""
    kept = keep_at_random(program, rows, call)
    if call.found is not None:
        return _times(program, kept, call.found[1])
    if call.parameters["rescale"] == "none":
        return kept
    return [program.divide_by(row, chance, into=row) for row, chance in zip(kept, call.column("density"), strict=True)]


def _chances(program: Program, call: RuleCall) -> list[tuple[float, float]]:
    """Each model's lowest chance, density - window / 2, and what a rank adds, window / columns.

    A density of 1 leaves no room for a window.
    """
    density, window = (np.array(call.parameters[name], np.float32) for name in ("density", "window"))
    window = window * (density < 1)
    lowest, step = density - window / np.float32(2), window / np.float32(program.width)
    return list(zip(lowest.tolist(), step.tolist(), strict=True))


def della_masks(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """m_i = 1 with the chance p_i = lowest + step * rank of |d_i| in its row, else 0. A register holds one row."""
    masks = []
    for row, model, (lowest, step) in zip(rows, call.place.models, _chances(program, call), strict=True):
        masks.append(program.draw_ranked(row, lowest, max(step, 1e-30), *call.key(model)))
    return masks


def della(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """m_i d_i / p_i; with `rescale: l1` the masks that a fold drew, times what restores the summed magnitude."""
    if call.found is not None:
        bits, ratios = call.found
        kept = [program.multiply(program.unpack(mask), row) for mask, row in zip(bits, rows, strict=True)]
        return _times(program, kept, ratios)
    kept = [program.multiply(mask, row) for mask, row in zip(della_masks(program, rows, call), rows, strict=True)]
    if call.parameters["rescale"] == "none":
        return kept
    for out, row, (lowest, step) in zip(kept, rows, _chances(program, call), strict=True):
        chance = program.ranks(row)
        program.shift(program.scale(chance, step, into=chance), lowest, into=chance)
        program.divide(out, chance, into=out)
    return kept


def _elected_sign(program: Program, rows: Rows, call: RuleCall, elect: str = "mass") -> int:
    """S = sign(sum_i d_i), or of sum_i sign(d_i) by `count`; a tie is 0, or 1 with `tie: positive`."""
    votes = rows if elect == "mass" else [program.sign(row) for row in rows]
    return program.sign(program.total(votes), zero_is_up=call.parameters["tie"] == "positive")


def ties(program: Program, rows: Rows, call: RuleCall) -> int:
    """Scale * s * sum_i a_i / sum_i w_i [a_i > 0], with a_i = |w_i t_i| where t_i has the elected sign s, else 0.

    t_i are the trimmed changes. `merge: sum` leaves the division out, `max` takes the largest a_i. The divisor is at
    least 1e-30; with weights below 0 it may be below 0 as well, and only 0 becomes 1.
    """
    parameters, weights = call.parameters, call.column("weights")
    weighted = [program.scale(row, w) for row, w in zip(keep_largest(program, rows, call), weights, strict=True)]
    sign = _elected_sign(program, weighted, call, parameters["elect"])
    if parameters["merge"] == "mean":
        merged, shares = program.agreeing(weighted, sign, weights)
        whole = program.no_zero(shares, into=shares) if min(weights) < 0 else program.at_least(shares, 1e-30, shares)
        merged = program.multiply(program.divide(merged, whole), sign)
        return _scaled(program, merged, parameters["scale"])
    agreed = [program.agree(row, sign, into=row) for row in weighted]
    if parameters["merge"] == "max":
        largest = agreed[0]
        for row in agreed[1:]:
            largest = program.larger(largest, row, into=largest)
        return _scaled(program, program.multiply(sign, largest), parameters["scale"])
    return _scaled(program, program.multiply(program.total(agreed), sign), parameters["scale"])


def variance(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """mean_i (d_i - mean_j d_j)^2, in one register: what SCE ranks positions by."""
    if len(rows) == 3:
        return [program.variance(*rows)]
    mean = program.divide_by(program.total(rows), len(rows))
    spread = [program.subtract(row, mean) for row in rows]
    squares = [program.square(row, into=row) for row in spread]
    return [program.divide_by(program.total(squares, into=squares[0]), len(rows))]


def _selection(program: Program, rows: Rows, call: RuleCall) -> tuple[int, float]:
    """A register and the bound that it exceeds where SCE selects; `found` are the cuts of the variance."""
    (varied,), cut = variance(program, rows, call), call.found[0][0]
    if cut.value == 0:
        return varied, 0.0
    return (program.cut(varied, cut.below, cut.value, cut.ties), 0.0) if cut.ties else (varied, _bound(cut))


def keep_selected(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """d_i where the variance passes its cut, else 0; all of it where there are no cuts (SCE)."""
    if call.found is None:
        return rows
    varied, above = _selection(program, rows, call)
    return [program.where(row, varied, above) for row in rows]


def sce(program: Program, rows: Rows, call: RuleCall) -> int:
    """S * sum_i w_i a_i / sum_i w_i [a_i > 0], with a_i = |d_i| where d_i has the elected sign s, else 0.

    The weights come from the fold. A sign of 0 leaves an entry as it is, so that only the sign has to know what was
    selected.
    """
    cuts, found = call.found
    weights = [float(weight) for weight in found]
    sign = _elected_sign(program, rows, call)
    if cuts is not None:
        sign = program.where(sign, *_selection(program, rows, replace(call, found=cuts)))
    merged, shares = program.agreeing(rows, sign, weights, weights)
    merged = program.divide(merged, program.at_least(shares, 1e-30, shares), into=merged)
    return program.multiply(merged, sign, into=merged)


def row_divergences(program: Program, rows: Rows, call: RuleCall) -> NDArray[np.float64]:
    """KL(softmax(base + d) || softmax(base)) of each row of the span [rows]. A register holds one row."""
    assert call.base is not None
    return program.row_divergence(rows[0], call.base, (call.place.stop - call.place.start) // program.width)


def importance(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """D * KL of its row, whose magnitude is the importance; `found` are the divergences [rows]."""
    return [program.row_scale(rows[0], call.found)]


def arcee_fusion(program: Program, rows: Rows, call: RuleCall) -> int:
    """D where its importance reaches median + 1.5 * (upper quartile - lower quartile), else 0 * d."""
    divergences, quartiles = call.found
    (scaled,) = importance(program, rows, replace(call, found=divergences))
    least = np.float32(standing_out(quartiles))
    below = float(np.nextafter(least, np.float32(0))) if least > 0 else -1.0
    return program.keep_where(rows[0], scaled, below)
