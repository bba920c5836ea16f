"""The kind `clip`: picture models merged, mixed and ensembled, at published and at tuned scales."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.clip.loop import bench_pictures
from smelt.suites.clip.report.pages import ClipPages
from smelt.suites.clip.suite import Suite
from smelt.suites.kind import Kind, kinds

__all__: list[str] = []

kinds["clip"] = Kind("clip", Suite, bench_pictures, ClipPages(), folder=Path(__file__).parent)
