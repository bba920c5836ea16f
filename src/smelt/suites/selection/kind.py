"""The kind `selection`: which models to merge, by uncertainty or by accuracy (UQ-Merge)."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.kind import Kind, kinds
from smelt.suites.selection.plan import SelectionPlan
from smelt.suites.selection.report.pages import SelectionPages
from smelt.suites.selection.suite import SelectionSuite

__all__: list[str] = []

kinds["selection"] = Kind("selection", SelectionSuite, SelectionPlan, SelectionPages(), folder=Path(__file__).parent)
