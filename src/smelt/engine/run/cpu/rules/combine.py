"""Rules of methods that add models up, with the same factors for a whole tensor or for a whole row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.methods.means.model_stock import step_length
from smelt.methods.means.nuslerp import row_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rules.rule import At, Rows

__all__ = [
    "average",
    "combination",
    "model_stock",
    "nearswap",
    "not_over_columns",
    "nuslerp",
    "passthrough",
    "ram",
    "steps_of_rows",
    "task_arithmetic",
    "weights_of_rows",
]


def _normalised(at: At) -> list[float]:
    weights = np.array(at.parameters["weights"], np.float32)
    if at.parameters["normalize"]:
        exact = weights.astype(np.float64)
        with np.errstate(invalid="ignore"):  # what is no number is told of when it is met
            weights = (exact / exact.sum()).astype(np.float32)
    return list(weights.tolist())


def average(program: Program, rows: Rows, at: At) -> int:
    return program.weighted_sum(rows, _normalised(at))


def task_arithmetic(program: Program, rows: Rows, at: At) -> int:
    merged, scale = program.weighted_sum(rows, _normalised(at)), at.parameters["scale"]
    return merged if scale == 1 else program.scale(merged, scale, into=merged)


def combination(program: Program, rows: Rows, at: At) -> int:
    return program.weighted_sum(rows, [float(weight) for weight in at.found])


def model_stock(program: Program, rows: Rows, at: At) -> int:
    mean = program.over(program.total(rows), len(rows))
    if at.parameters["over"] == "row":
        return program.row_scale(mean, at.found[0])
    return program.scale(mean, float(at.found), into=mean)


def steps_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return step_length(grams, parameters["floor"])[:, None]


def nuslerp(program: Program, rows: Rows, at: At) -> int:
    if at.parameters["over"] == "tensor":
        return combination(program, rows, at)
    return program.total([program.row_scale(row, factors) for row, factors in zip(rows, at.found, strict=True)])


def weights_of_rows(grams: NDArray[np.float64], parameters: Mapping[str, Any]) -> NDArray[np.float64]:
    return row_weights(grams, [float(np.float32(weight)) for weight in parameters["weights"]])


def not_over_columns(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters["over"] != "column")


def passthrough(program: Program, rows: Rows, at: At) -> int:
    return program.scale(rows[0], at.column("scale")[0])


def nearswap(program: Program, rows: Rows, at: At) -> int:
    return program.clamp(rows[0], at.parameters["t"])


def ram(program: Program, rows: Rows, at: At) -> int:
    kept = [program.cut(row, at.parameters["epsilon"]) for row in rows]
    signs = [program.sign(row) for row in kept]
    count = program.total([program.square(sign, into=sign) for sign in signs])
    return program.divide(program.total(kept), program.at_least(count, 1.0))
