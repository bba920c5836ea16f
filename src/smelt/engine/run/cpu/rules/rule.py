"""What a rule is: how a stage is run by the vector machine, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.ops.random import place_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.ops.block import Place

__all__ = ["At", "ByRow", "Does", "Rows", "Rule"]

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

    def key(self, model: str) -> tuple[int, int]:
        """The halves of the key of a model's random numbers here."""
        high, low = divmod(self.place.start, 1 << 32)
        before, between = place_key(self.seed, self.position, self.place.key, model, high)
        return before + low, between


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
    draws: bool = False
    """Whether what it does depends on the place beyond what its fold has found there."""
    measures: Does | None = None
    """The array with a number for each row, which a fold asks for before anything else."""
    by_row: ByRow | None = None
    """What it multiplies each row with, where that is asked for: `found` are then the factors, one array for each."""
