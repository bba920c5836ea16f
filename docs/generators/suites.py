"""The tables of results/clip8-generalization and results/clip8-robustness: blocks for a page of their own."""

from __future__ import annotations

import runpy
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
PAGE = "results/generalisation-and-robustness.md"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    suites = ("clip8-generalization", "clip8-robustness")
    return {PAGE: {name: table(name) for name in suites} | {f"{name}-order": _order(RESULTS / name) for name in suites}}


def table(suite: str) -> str:
    """The suite's own table, as its report wrote it."""
    return (RESULTS / suite / "table.md").read_text(encoding="utf-8").strip()
