"""The kind `clip`: picture models merged, mixed and ensembled, at published and at tuned scales."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.clip.plan import ClipPlan
from smelt.suites.clip.report.pages import ClipPages
from smelt.suites.clip.suite import ClipSuite
from smelt.suites.kind import Kind, kinds

__all__: list[str] = []

kinds["clip"] = Kind("clip", ClipSuite, ClipPlan, ClipPages(), folder=Path(__file__).parent)
