"""The tables of results/clip8-generalization and results/clip8-robustness: blocks for a page of their own."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
PAGE = "results/generalisation-and-robustness.md"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {PAGE: {name: table(name) for name in ("clip8-generalization", "clip8-robustness")}}


def table(suite: str) -> str:
    """The suite's own table, as its report wrote it."""
    return (RESULTS / suite / "table.md").read_text(encoding="utf-8").strip()
