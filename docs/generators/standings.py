"""Where each stage stood in the committed runs of the suites: score, interval and place, from the rows of results/.

The score of an entry is the mean over a view's tasks, and its interval joins theirs, as in the reports
(smelt.reporting.tables.cells). An entry has a place among the merges that saw all tasks; what is no merge of one size,
or has to be told the task, is shown without one. A method's page has the entries in which it stands alone, a step's,
basis's or wrapper's those in which it takes part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
BEHIND = {"stitch": "localize"}
"""Stages that no entry names: what leads to them."""


@dataclass(frozen=True)
class View:
    """The rows of a suite that are compared with one another."""

    suite: str
    title: str
    page: str
    unit: str
    shown: Callable[[Any], bool]


VIEWS = (
    View("clip8", "clip8", "clip8.md", "pictures", lambda row: True),
    View(
        "clip8-generalization",
        "clip8, unseen tasks",
        "generalisation-and-robustness.md",
        "pictures",
        lambda row: row.seen is False,
    ),
    View(
        "clip8-robustness",
        "clip8, corrupted",
        "generalisation-and-robustness.md",
        "pictures",
        lambda row: row.corruption is not None,
    ),
    View("neulig", "neulig, 7 ViT", "neulig.md", "pictures", lambda row: _group(row, "ViT, 7 experts")),
    View("neulig", "neulig, 7 ResNet", "neulig.md", "pictures", lambda row: _group(row, "ResNet, 7 experts")),
    View("llm5", "llm5", "llm5.md", "questions", lambda row: not row.task.startswith("general-")),
    View("mllm10", "mllm10, all ten", "mllm10.md", "questions", lambda row: row.part in ("all", None)),
)


@dataclass(frozen=True)
class Line:
    """One entry of a view."""

    stages: tuple[str, ...]
    label: str
    said: str
    cell: Any
    ranked: bool


def standing(stage: Any) -> str:
    """The table of a stage's page with what its numbers stand beside, or that there is none."""
    lines, beside = [], []
    for view in VIEWS:
        entries, base = table(view)
        ranked = sorted((line for line in entries if line.ranked), key=lambda line: -line.cell.accuracy)
        mine = [line for line in entries if _belongs(stage, line.stages)]
        link = f"[{view.title}](../../results/{view.page})"
        for line in mine:
            better = sum(one.cell.accuracy > line.cell.accuracy for one in ranked)
            place = f"{better + 1} of {len(ranked)}" if line.ranked else "not ranked"
            span = f"{_percent(line.cell.low)} to {_percent(line.cell.high)}"
            lines.append(f"| {link}: {line.said} | {_percent(line.cell.accuracy)} ({span}) | {place} |")
        if mine:
            best = f"best merge {_percent(ranked[0].cell.accuracy)} ({ranked[0].label})"
            asked = f"{mine[0].cell.n:,} {view.unit}"
            beside.append(f"- {view.title}, {asked}: base {_percent(base.accuracy)}, {best}")
    if not lines:
        return "It was not run in our suites."
    head = ["| suite, and how it was run | score in % (95 % interval) | place |", "|---|---:|---:|"]
    return "\n".join([*head, *lines, "", "What these numbers stand beside:", "", *beside])


@functools.cache
def table(view: View) -> tuple[tuple[Line, ...], Any]:
    """The entries of a view, and the base's number."""
    found: dict[tuple[str, str], list[Any]] = {}
    tests = [row for row in _rows(view.suite) if row.split == "test" and row.variant != "curve"]
    for row in tests:
        if view.shown(row) and row.entry != "pretrained":
            found.setdefault((row.entry, row.variant), []).append(row)
    published = {entry: rows[0].setting for (entry, variant), rows in found.items() if variant == "published"}
    known = found.get(("task_arithmetic", "published")) or found["task_arithmetic", "tuned"]
    tasks = {_place(row) for row in known}
    lines = []
    for (entry, variant), rows in found.items():
        calls = _stages(view.suite, rows[0])
        again = variant == "tuned" and rows[0].setting == published.get(entry)
        if not calls or again or {_place(row) for row in rows} != tasks:
            continue
        ranked = variant != "reference" and rows[0].way == "merge"
        lines.append(Line(calls, rows[0].label, _said(rows[0]), _mean(rows), ranked))
    asked = {place[1:] for place in tasks}
    parts = {place[0] for place in tasks} | {None}
    base = [row for row in tests if row.entry == "pretrained" and row.part in parts and _place(row)[1:] in asked]
    return tuple(lines), _mean(base)


def _place(row: Any) -> tuple[str | None, str, str]:
    return row.part, row.task, str(row.corruption)


def _group(row: Any, part: str) -> bool:
    return row.part == part and row.level in ("merged", None)


@functools.cache
def _rows(suite: str) -> tuple[Any, ...]:
    from smelt.evaluation.row import Row, read_rows

    return tuple(row for row in read_rows(RESULTS / suite / "rows.jsonl") if isinstance(row, Row))


def _mean(rows: list[Any]) -> Any:
    """Over tasks; pictures that were corrupted in many ways count once, so that the interval is not too narrow."""
    from smelt.reporting.tables.cells import Cell, cell_of, mean_cell

    tasks: dict[tuple[Any, str], list[Any]] = {}
    for row in rows:
        tasks.setdefault((row.part, row.task), []).append(cell_of(row))
    cells = []
    for same in tasks.values():
        accuracy, low, high = (sum(getattr(c, word) for c in same) / len(same) for word in ("accuracy", "low", "high"))
        cells.append(Cell(accuracy, low, high, same[0].n))
    return mean_cell(cells)


def _stages(suite: str, row: Any) -> tuple[str, ...]:
    """The stages of an entry: those of its recipe, or of the suite's file where the rows have none."""
    from smelt.methods.aliases import ALIASES
    from smelt.recipe.schema import Recipe

    merge = row.recipe.get("merge") if row.recipe else _entries(suite).get(row.entry, {}).get("merge")
    if not merge:
        return ()
    calls = Recipe.parse({"pool": {"models": {"one": "one"}}, "merge": merge}).merge
    return tuple(name for call in calls for name, _ in ALIASES.get(call.name, [(call.name, {})]))


@functools.cache
def _entries(suite: str) -> dict[str, Any]:
    import yaml

    source = Path(__file__).parents[2] / "src" / "smelt" / "suites"
    (file,) = source.glob(f"*/{suite}.yaml")
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")).get("entries", {}))


def _belongs(stage: Any, names: tuple[str, ...]) -> bool:
    name = BEHIND.get(stage.name, stage.name)
    return names == (name,) if stage.kind == "method" else name in names


def _said(row: Any) -> str:
    from smelt.reporting.words import setting_text

    tuned = "tuned: " if row.variant == "tuned" else ""
    setting = setting_text(row.setting)
    text = f"{row.label} ({tuned}{setting})" if setting else row.label
    return text.replace("_", r"\_").replace("|", r"\|")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
