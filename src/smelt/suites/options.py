"""How much of a suite to run, and where; and what a run leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from smelt.evaluation.row import CostRow, Row

__all__ = ["Finished", "Options"]

Tell: TypeAlias = Callable[[str], None]

EXECUTOR = "local"
"""Where units are computed unless something else is said."""


@dataclass(frozen=True)
class Options:
    """How much of a suite to run, and where."""

    limit: int | None = None
    """Examples of each test split; all of them if nothing is given."""
    curve_limit: int | None = None
    """Examples of each `val` split that a setting is tried on; as the suite says if nothing is given."""
    preset: str | None = None
    """A name of the suite's own for other limits and grids (`fast`)."""
    tune: bool = True
    device: str = "cpu"
    """Where models are evaluated, measured and learned from; merging runs on the CPU."""
    dtype: str = "float32"
    threads: int | None = None
    keep_models: bool = False
    executor: str = field(default_factory=lambda: EXECUTOR)
    """Who does the work: `local` processes, this process (`inline`), `ray` or `slurm`."""
    workers: int = 1
    """How many units are computed at once."""
    trial_workers: int = 1
    """How many settings of one unit are tried at once, where a suite tunes inside its units."""
    tell: Tell = field(default=lambda line: None)
    """Receives a line about each finished step."""


@dataclass(frozen=True)
class Finished:
    """What a run left behind."""

    folder: Path
    report: Path
    rows: list[Row | CostRow]
    seconds: float
    computed: int
    """Accuracy rows that this run added; the others were there."""
