"""What each stage is in operations of the vector machine: functions that write a stage's operations into a program.

The torch functions in `methods` are the definition; a rule does the same sums in the same order, so that both give
the same bits (tests/engine/run/cpu/test_backends_agree.py). A step gives registers, one for each model, a method the
one of the merged values.
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
    from smelt.engine.run.cpu.support import Emit, Rows, RuleCall
    from smelt.ops.order import Cut

__all__ = [
    "and_restored",
    "arcee_fusion",
    "average",
    "band",
    "bound",
    "combination",
    "dare",
    "della",
    "divergences",
    "drawn",
    "important",
    "model_stock",
    "nearswap",
    "not_over_columns",
    "nuslerp",
    "passthrough",
    "ram",
    "ranked",
    "sce",
    "selected",
    "steps_of_rows",
    "task_arithmetic",
    "ties",
    "trimmed",
    "variance",
    "weights_of_rows",
]


def _normalised(call: RuleCall) -> list[float]:
    weights = np.array(call.parameters["weights"], np.float32)
    if call.parameters["normalize"]:
        exact = weights.astype(np.float64)
        with np.errstate(invalid="ignore"):  # what is no number is told of when it is met
            weights = (exact / exact.sum()).astype(np.float32)
    return list(weights.tolist())


def average(program: Program, rows: Rows, call: RuleCall) -> int:
    return program.weighted_sum(rows, _normalised(call))


def task_arithmetic(program: Program, rows: Rows, call: RuleCall) -> int:
    merged, scale = program.weighted_sum(rows, _normalised(call)), call.parameters["scale"]
    return merged if scale == 1 else program.scale(merged, scale, into=merged)


def combination(program: Program, rows: Rows, call: RuleCall) -> int:
    return program.weighted_sum(rows, [float(weight) for weight in call.found])


def model_stock(program: Program, rows: Rows, call: RuleCall) -> int:
    mean = program.over(program.total(rows), len(rows))
    if call.parameters["over"] == "row":
        return program.row_scale(mean, call.found[0])
    return program.scale(mean, float(call.found), into=mean)


def steps_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return step_length(grams, parameters["floor"])[:, None]


def nuslerp(program: Program, rows: Rows, call: RuleCall) -> int:
    if call.parameters["over"] == "tensor":
        return combination(program, rows, call)
    return program.total([program.row_scale(row, factors) for row, factors in zip(rows, call.found, strict=True)])


def weights_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return row_weights(grams, [float(np.float32(weight)) for weight in parameters["weights"]])


def not_over_columns(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters["over"] != "column")


def passthrough(program: Program, rows: Rows, call: RuleCall) -> int:
    return program.scale(rows[0], call.column("scale")[0])


def nearswap(program: Program, rows: Rows, call: RuleCall) -> int:
    return program.clamp(rows[0], call.parameters["t"])


def ram(program: Program, rows: Rows, call: RuleCall) -> int:
    kept = [program.cut(row, call.parameters["epsilon"]) for row in rows]
    signs = [program.sign(row) for row in kept]
    count = program.total([program.square(sign, into=sign) for sign in signs])
    return program.divide(program.total(kept), program.at_least(count, 1.0))


def _kept(program: Program, row: int, cut: Cut) -> int:
    """What passes a cut. One that keeps nothing has the bound infinity, one that keeps all has none."""
    if cut.value == 0:
        return row
    return program.cut(row, bound(cut), cut.value, cut.ties or None)


def bound(cut: Cut) -> float:
    """What a magnitude must exceed to pass a cut, ties aside."""
    return cut.value if cut.ties == 0 else cut.below


def trimmed(program: Program, rows: Rows, call: RuleCall) -> Rows:
    cuts = call.found
    return [_kept(program, row, cut[0]) for row, cut in zip(rows, cuts, strict=True)] if cuts else rows


def _restored(program: Program, rows: Rows, factors: Sequence[float]) -> Rows:
    return [program.scale(row, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def and_restored(prunes: Emit) -> Emit:
    """A pruning, followed by the factors that restore the summed magnitude where its fold has found such."""

    def emit(program: Program, rows: Rows, call: RuleCall) -> Rows:
        if not isinstance(call.found, tuple):
            kept: Rows = prunes(program, rows, call)
            return kept
        found, factors = call.found
        return _restored(program, prunes(program, rows, replace(call, found=found)), factors)

    return emit


def band(program: Program, rows: Rows, call: RuleCall) -> Rows:
    kept = []
    for row, (above, below) in zip(rows, call.found, strict=True):
        if below.value and above.value and not below.ties and not above.ties:
            kept.append(program.band(row, bound(below), bound(above)))
            continue
        kept.append(program.subtract(_kept(program, row, below), _kept(program, row, above)))
    return kept


def drawn(program: Program, rows: Rows, call: RuleCall) -> Rows:
    kept = []
    for row, model, chance in zip(rows, call.place.models, call.column("density"), strict=True):
        kept.append(program.multiply(program.draw(chance, *call.key(model)), row))
    return kept


def dare(program: Program, rows: Rows, call: RuleCall) -> Rows:
    kept = drawn(program, rows, call)
    if call.found is not None:
        return _restored(program, kept, call.found[1])
    if call.parameters["rescale"] == "none":
        return kept
    return [program.over(row, chance, into=row) for row, chance in zip(kept, call.column("density"), strict=True)]


def _window(program: Program, call: RuleCall) -> list[tuple[float, float]]:
    """Each model's lowest chance, and by how much a rank adds to it. A density of 1 leaves no room for a window."""
    density, window = (np.array(call.parameters[name], np.float32) for name in ("density", "window"))
    window = window * (density < 1)
    lowest, step = density - window / np.float32(2), window / np.float32(program.width)
    return list(zip(lowest.tolist(), step.tolist(), strict=True))


def ranked(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """The masks of DELLA."""
    masks = []
    for row, model, (lowest, step) in zip(rows, call.place.models, _window(program, call), strict=True):
        masks.append(program.draw_ranked(row, lowest, max(step, 1e-30), *call.key(model)))
    return masks


def della(program: Program, rows: Rows, call: RuleCall) -> Rows:
    if call.found is not None:
        bits, ratios = call.found
        kept = [program.multiply(program.unpack(one), row) for one, row in zip(bits, rows, strict=True)]
        return _restored(program, kept, ratios)
    kept = [program.multiply(mask, row) for mask, row in zip(ranked(program, rows, call), rows, strict=True)]
    if call.parameters["rescale"] == "none":
        return kept
    for out, row, (lowest, step) in zip(kept, rows, _window(program, call), strict=True):
        chance = program.ranks(row)
        program.shift(program.scale(chance, step, into=chance), lowest, into=chance)
        program.divide(out, chance, into=out)
    return kept


def _elected(program: Program, rows: Rows, call: RuleCall, elect: str = "mass") -> int:
    voices = rows if elect == "mass" else [program.sign(row) for row in rows]
    return program.sign(program.total(voices), zero_is_up=call.parameters["tie"] == "positive")


def ties(program: Program, rows: Rows, call: RuleCall) -> int:
    parameters, weights = call.parameters, call.column("weights")
    weighted = [program.scale(row, w) for row, w in zip(trimmed(program, rows, call), weights, strict=True)]
    sign = _elected(program, weighted, call, parameters["elect"])
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


def _scaled(program: Program, row: int, scale: float) -> int:
    return row if scale == 1 else program.scale(row, scale, into=row)


def variance(program: Program, rows: Rows, call: RuleCall) -> Rows:
    if len(rows) == 3:
        return [program.variance(*rows)]
    mean = program.over(program.total(rows), len(rows))
    spread = [program.subtract(row, mean) for row in rows]
    squares = [program.square(row, into=row) for row in spread]
    return [program.over(program.total(squares, into=squares[0]), len(rows))]


def _selection(program: Program, rows: Rows, call: RuleCall) -> tuple[int, float]:
    """A register and the bound that it exceeds where SCE selects."""
    (varied,), cut = variance(program, rows, call), call.found[0][0]
    if cut.value == 0:
        return varied, 0.0
    return (program.cut(varied, cut.below, cut.value, cut.ties), 0.0) if cut.ties else (varied, bound(cut))


def selected(program: Program, rows: Rows, call: RuleCall) -> Rows:
    if call.found is None:
        return rows
    varied, above = _selection(program, rows, call)
    return [program.where(row, varied, above) for row in rows]


def sce(program: Program, rows: Rows, call: RuleCall) -> int:
    """A sign of 0 leaves an entry as it is, so that only the sign has to know what was selected."""
    cuts, found = call.found
    weights = [float(weight) for weight in found]
    sign = _elected(program, rows, call)
    if cuts is not None:
        sign = program.where(sign, *_selection(program, rows, replace(call, found=cuts)))
    merged, shares = program.agreeing(rows, sign, weights, weights)
    merged = program.divide(merged, program.at_least(shares, 1e-30, shares), into=merged)
    return program.multiply(merged, sign, into=merged)


def divergences(program: Program, rows: Rows, call: RuleCall) -> NDArray[np.float64]:
    assert call.base is not None
    return program.row_divergence(rows[0], call.base, (call.place.stop - call.place.start) // program.width)


def important(program: Program, rows: Rows, call: RuleCall) -> Rows:
    """What has the magnitude of the importance; `found` are the divergences of rows."""
    return [program.row_scale(rows[0], call.found)]


def arcee_fusion(program: Program, rows: Rows, call: RuleCall) -> int:
    measured, cuts = call.found
    (scaled,) = important(program, rows, replace(call, found=measured))
    least = np.float32(standing_out(cuts))
    below = float(np.nextafter(least, np.float32(0))) if least > 0 else -1.0
    return program.keep_where(rows[0], scaled, below)
