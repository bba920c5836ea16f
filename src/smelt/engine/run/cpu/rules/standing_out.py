"""The rule of Arcee fusion: changes that stand out by their size and by how far their row has moved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smelt.methods.means.arcee_fusion import standing_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rules.rule import At, Rows

__all__ = ["arcee_fusion", "divergences", "important"]


def divergences(program: Program, rows: Rows, at: At) -> NDArray[np.float64]:
    assert at.base is not None
    return program.row_divergence(rows[0], at.base, (at.place.stop - at.place.start) // program.width)


def important(program: Program, rows: Rows, at: At) -> Rows:
    """What has the magnitude of the importance; `found` are the divergences of rows."""
    return [program.row_scale(rows[0], at.found)]


def arcee_fusion(program: Program, rows: Rows, at: At) -> int:
    measured, cuts = at.found
    (scaled,) = important(program, rows, replace(at, found=measured))
    least = np.float32(standing_out(cuts))
    below = float(np.nextafter(least, np.float32(0))) if least > 0 else -1.0
    return program.keep_where(rows[0], scaled, below)
