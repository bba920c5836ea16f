"""What stages are in operations of the vector machine.

The torch functions in `smelt.merge` are the definition; a rule does the same sums in the same order, so that both give
the same numbers (tests/fused). A stage without a rule, or with options that its rule does not take, runs in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.merge.arcee_fusion import standing_out
from smelt.merge.model_stock import step_length
from smelt.merge.nuslerp import row_weights
from smelt.ops.random import place_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.fused.program import Program
    from smelt.ops.block import Place
    from smelt.ops.order import Cut

__all__ = ["RULES", "At", "Rule"]

Rows: TypeAlias = Sequence[int]
"""Registers, one for each model."""


@dataclass(frozen=True)
class At:
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


Does: TypeAlias = "Callable[[Program, Rows, At], Any]"
ByRow: TypeAlias = "Callable[[NDArray[np.float64], Mapping[str, Any]], NDArray[np.float64]]"
"""From the Gram matrices (rows, models, models) of rows and the parameters to factors (rows, some)."""


def _always(parameters: Mapping[str, Any]) -> bool:
    return True


def _rows(program: Program, rows: Rows, at: At) -> Rows:
    return rows


@dataclass(frozen=True)
class Rule:
    """How a stage is run: a step gives rows, a method the register of the merged values."""

    does: Does
    takes: Callable[[Mapping[str, Any]], bool] = _always
    ranks: Does = _rows
    """The registers whose magnitudes its fold ranks."""
    prunes: Does | None = None
    """The rows that it leaves before their summed magnitude is restored; `found` is then what the ranks gave."""
    masks: Does | None = None
    """What it keeps, as ones and zeros, where that is remembered: drawing it again would take longer."""
    measures: Does | None = None
    """The array with a number for each row, which a fold asks for before anything else."""
    by_row: ByRow | None = None
    """What it multiplies each row with, where that is asked for: `found` are then the factors, one array for each."""


def _normalised(at: At) -> list[float]:
    weights = np.array(at.parameters["weights"], np.float32)
    if at.parameters["normalize"]:
        exact = weights.astype(np.float64)
        with np.errstate(invalid="ignore"):  # what is no number is told of when it is met
            weights = (exact / exact.sum()).astype(np.float32)
    return list(weights.tolist())


def _average(program: Program, rows: Rows, at: At) -> int:
    return program.weighted_sum(rows, _normalised(at))


def _task_arithmetic(program: Program, rows: Rows, at: At) -> int:
    merged, scale = program.weighted_sum(rows, _normalised(at)), at.parameters["scale"]
    return merged if scale == 1 else program.scale(merged, scale, into=merged)


def _combination(program: Program, rows: Rows, at: At) -> int:
    return program.weighted_sum(rows, [float(weight) for weight in at.found])


def _model_stock(program: Program, rows: Rows, at: At) -> int:
    mean = program.over(program.total(rows), len(rows))
    if at.parameters["over"] == "row":
        return program.row_scale(mean, at.found[0])
    return program.scale(mean, float(at.found), into=mean)


def _steps_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return step_length(grams, parameters["floor"])[:, None]


def _nuslerp(program: Program, rows: Rows, at: At) -> int:
    if at.parameters["over"] == "tensor":
        return _combination(program, rows, at)
    return program.total([program.row_scale(row, factors) for row, factors in zip(rows, at.found, strict=True)])


def _weights_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return row_weights(grams, [float(np.float32(weight)) for weight in parameters["weights"]])


def _passthrough(program: Program, rows: Rows, at: At) -> int:
    return program.scale(rows[0], at.column("scale")[0])


def _nearswap(program: Program, rows: Rows, at: At) -> int:
    return program.clamp(rows[0], at.parameters["t"])


def _ram(program: Program, rows: Rows, at: At) -> int:
    kept = [program.cut(row, at.parameters["epsilon"]) for row in rows]
    signs = [program.sign(row) for row in kept]
    count = program.total([program.square(sign, into=sign) for sign in signs])
    return program.divide(program.total(kept), program.at_least(count, 1.0))


def _kept(program: Program, row: int, cut: Cut) -> int:
    """What passes a cut. One that keeps nothing has the bound infinity, one that keeps all has none."""
    if cut.value == 0:
        return row
    return program.cut(row, _bound(cut), cut.value, cut.ties or None)


def _bound(cut: Cut) -> float:
    return cut.value if cut.ties == 0 else cut.below


def _trimmed(program: Program, rows: Rows, at: At) -> Rows:
    cuts = at.found
    return [_kept(program, row, cut[0]) for row, cut in zip(rows, cuts, strict=True)] if cuts else rows


def _restored(program: Program, rows: Rows, factors: Sequence[float]) -> Rows:
    return [program.scale(row, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def _and_restored(prunes: Does) -> Does:
    """A pruning, followed by the factors that restore the summed magnitude where its fold has found such."""

    def does(program: Program, rows: Rows, at: At) -> Rows:
        if not isinstance(at.found, tuple):
            kept: Rows = prunes(program, rows, at)
            return kept
        found, factors = at.found
        return _restored(program, prunes(program, rows, replace(at, found=found)), factors)

    return does


def _band(program: Program, rows: Rows, at: At) -> Rows:
    kept = []
    for row, (above, below) in zip(rows, at.found, strict=True):
        if below.value and above.value and not below.ties and not above.ties:
            kept.append(program.band(row, _bound(below), _bound(above)))
            continue
        kept.append(program.subtract(_kept(program, row, below), _kept(program, row, above)))
    return kept


def _drawn(program: Program, rows: Rows, at: At) -> Rows:
    kept = []
    for row, model, chance in zip(rows, at.place.models, at.column("density"), strict=True):
        kept.append(program.multiply(program.draw(chance, *_key(at, model)), row))
    return kept


def _key(at: At, model: str) -> tuple[int, int]:
    """The halves of the key of a model's random numbers here."""
    high, low = divmod(at.place.start, 1 << 32)
    before, between = place_key(at.seed, at.position, at.place.key, model, high)
    return before + low, between


def _dare(program: Program, rows: Rows, at: At) -> Rows:
    kept = _drawn(program, rows, at)
    if at.found is not None:
        return _restored(program, kept, at.found[1])
    if at.parameters["rescale"] == "none":
        return kept
    return [program.over(row, chance, into=row) for row, chance in zip(kept, at.column("density"), strict=True)]


def _window(program: Program, at: At) -> list[tuple[float, float]]:
    """Each model's lowest chance, and by how much a rank adds to it. A density of 1 leaves no room for a window."""
    density, window = (np.array(at.parameters[name], np.float32) for name in ("density", "window"))
    window = window * (density < 1)
    lowest, step = density - window / np.float32(2), window / np.float32(program.width)
    return list(zip(lowest.tolist(), step.tolist(), strict=True))


def _ranked(program: Program, rows: Rows, at: At) -> Rows:
    """The masks of DELLA."""
    masks = []
    for row, model, (lowest, step) in zip(rows, at.place.models, _window(program, at), strict=True):
        masks.append(program.draw_ranked(row, lowest, max(step, 1e-30), *_key(at, model)))
    return masks


def _della(program: Program, rows: Rows, at: At) -> Rows:
    if at.found is not None:
        bits, ratios = at.found
        kept = [program.multiply(program.unpack(one), row) for one, row in zip(bits, rows, strict=True)]
        return _restored(program, kept, ratios)
    kept = [program.multiply(mask, row) for mask, row in zip(_ranked(program, rows, at), rows, strict=True)]
    if at.parameters["rescale"] == "none":
        return kept
    for out, row, (lowest, step) in zip(kept, rows, _window(program, at), strict=True):
        chance = program.ranks(row)
        program.shift(program.scale(chance, step, into=chance), lowest, into=chance)
        program.divide(out, chance, into=out)
    return kept


def _elected(program: Program, rows: Rows, at: At, elect: str = "mass") -> int:
    voices = rows if elect == "mass" else [program.sign(row) for row in rows]
    return program.sign(program.total(voices), zero_is_up=at.parameters["tie"] == "positive")


def _ties(program: Program, rows: Rows, at: At) -> int:
    parameters, weights = at.parameters, at.column("weights")
    weighted = [program.scale(row, w) for row, w in zip(_trimmed(program, rows, at), weights, strict=True)]
    sign = _elected(program, weighted, at, parameters["elect"])
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


def _variance(program: Program, rows: Rows, at: At) -> Rows:
    if len(rows) == 3:
        return [program.variance(*rows)]
    mean = program.over(program.total(rows), len(rows))
    spread = [program.subtract(row, mean) for row in rows]
    squares = [program.square(row, into=row) for row in spread]
    return [program.over(program.total(squares, into=squares[0]), len(rows))]


def _selection(program: Program, rows: Rows, at: At) -> tuple[int, float]:
    """A register and the bound that it exceeds where SCE selects."""
    (varied,), cut = _variance(program, rows, at), at.found[0][0]
    if cut.value == 0:
        return varied, 0.0
    return (program.cut(varied, cut.below, cut.value, cut.ties), 0.0) if cut.ties else (varied, _bound(cut))


def _selected(program: Program, rows: Rows, at: At) -> Rows:
    if at.found is None:
        return rows
    varied, bound = _selection(program, rows, at)
    return [program.where(row, varied, bound) for row in rows]


def _sce(program: Program, rows: Rows, at: At) -> int:
    """A sign of 0 leaves an entry as it is, so that only the sign has to know what was selected."""
    cuts, found = at.found
    weights = [float(weight) for weight in found]
    sign = _elected(program, rows, at)
    if cuts is not None:
        sign = program.where(sign, *_selection(program, rows, replace(at, found=cuts)))
    merged, shares = program.agreeing(rows, sign, weights, weights)
    merged = program.divide(merged, program.at_least(shares, 1e-30, shares), into=merged)
    return program.multiply(merged, sign, into=merged)


def _divergences(program: Program, rows: Rows, at: At) -> NDArray[np.float64]:
    assert at.base is not None
    return program.row_divergence(rows[0], at.base, (at.place.stop - at.place.start) // program.width)


def _important(program: Program, rows: Rows, at: At) -> Rows:
    """What has the magnitude of the importance; `found` are the divergences of rows."""
    return [program.row_scale(rows[0], at.found)]


def _arcee_fusion(program: Program, rows: Rows, at: At) -> int:
    divergences, cuts = at.found
    (important,), bound = _important(program, rows, replace(at, found=divergences)), np.float32(standing_out(cuts))
    below = float(np.nextafter(bound, np.float32(0))) if bound > 0 else -1.0
    return program.keep_where(rows[0], important, below)


def _not_over_columns(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters["over"] != "column")


RULES: Mapping[str, Rule] = {
    "average": Rule(_average),
    "task_arithmetic": Rule(_task_arithmetic),
    "slerp": Rule(_combination),
    "nuslerp": Rule(_nuslerp, takes=_not_over_columns, by_row=_weights_of_rows),
    "multislerp": Rule(_combination),
    "karcher": Rule(_combination),
    "model_stock": Rule(_model_stock, by_row=_steps_of_rows),
    "passthrough": Rule(_passthrough),
    "nearswap": Rule(_nearswap),
    "ram": Rule(_ram),
    "trim": Rule(_and_restored(_trimmed), prunes=_trimmed),
    "breadcrumbs": Rule(_and_restored(_band), prunes=_band),
    "dare": Rule(_dare, prunes=_drawn),
    "della": Rule(_della, masks=_ranked),
    "ties": Rule(_ties),
    "arcee_fusion": Rule(_arcee_fusion, ranks=_important, measures=_divergences),
    "sce": Rule(_sce, ranks=_variance, prunes=_selected),
}
