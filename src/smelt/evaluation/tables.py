"""Rows as people see them: one model's tasks down, or where there are several models, models down and tasks across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.display.blocks import Cell, Facts, Table
from smelt.tasks.corruptions.corruption import CLEAN

if TYPE_CHECKING:
    from smelt.evaluation.evaluate import Average, Evaluation
    from smelt.evaluation.row import CostRow, Row

__all__ = ["comparison_table", "cost_facts", "evaluation_table", "row_facts", "rows_table"]

_NAMES = ("task", "level", "corruption", "metric")
_INTERVAL = "95 % interval"


def row_facts(row: Row) -> Facts:
    """One row: the number, and what made it."""
    model = row.model if row.model == row.label else f"{row.label} ({row.model})"
    task = ", ".join(filter(None, [f"{row.task}@{row.task_version}", f"{row.split} split", row.corruption, row.level]))
    score = f"{_percent(row.accuracy)} % (95 % interval {_interval(row)}), {row.n:,} {row.example}s"
    loss = [("loss", f"{row.loss:.3f}")] if row.loss is not None else []
    return Facts([("model", model), ("task", task), (row.metric, score), *loss, ("again", row.command)])


def cost_facts(row: CostRow) -> Facts:
    """What one model cost."""
    prepared = [("prepare", f"{row.prepare_seconds:.1f} s")] if row.prepare_seconds else []
    merged = ("merge", f"{row.merge_seconds:.1f} s, {row.most_bytes / 1e6:,.0f} MB at most")
    return Facts([("model", row.entry), *prepared, merged, ("evaluate", f"{row.evaluate_seconds:.1f} s")])


def rows_table(rows: Sequence[Row]) -> Table:
    """Rows of one model, or of several beside each other where each task was asked once of each."""
    models = {_model_of(row) for row in rows}
    cells = {(_model_of(row), _column_of(row)) for row in rows}
    if len(models) > 1 and len(cells) == len(rows):
        return comparison_table(rows)
    from smelt.evaluation.evaluate import Evaluation

    return evaluation_table(Evaluation(list(rows), (), 0.0))


def comparison_table(rows: Sequence[Row]) -> Table:
    """Models down, tasks across, in per cent; the best of a column stands out."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        found.setdefault(_model_of(row), {})[_column_of(row)] = row.accuracy
    tasks = list(dict.fromkeys(_column_of(row) for row in rows))
    if len(tasks) > 1:
        for scores in found.values():
            if len(scores) == len(tasks):
                scores["average"] = sum(scores.values()) / len(scores)
    headings = [*tasks, *["average"] * (len(tasks) > 1)]
    most = {head: max((scores[head] for scores in found.values() if head in scores), default=0.0) for head in headings}

    def cell(scores: Mapping[str, float], head: str) -> str | Cell:
        return Cell(_percent(scores[head]), best=scores[head] == most[head]) if head in scores else ""

    lines = [[label, *(cell(scores, head) for head in headings)] for (label, _), scores in found.items()]
    return Table(["%", *headings], lines, f"{rows[0].split} split")


def evaluation_table(done: Evaluation) -> Table:
    """One line for each task, then the means."""
    plain = all(row.metric == "accuracy" for row in done.rows)
    score, count = "accuracy %" if plain else "score %", f"{done.results[0].unit}s" if done.results else "examples"
    count = count if plain else "examples"

    def condition(one: Row | Average) -> dict[str, str]:
        corrupted = any(row.corruption for row in done.rows)
        return {"level": one.level or "", "corruption": (one.corruption or CLEAN) if corrupted else ""}

    lines: list[dict[str, str]] = []
    for number, row in enumerate(done.rows):
        metric = {} if plain else {"metric": row.metric}
        seconds = {"seconds": f"{done.results[number].seconds:.1f}"} if done.results else {}
        numbers = {score: _percent(row.accuracy), _INTERVAL: _interval(row), "loss": _loss(row.loss)}
        lines.append({"task": row.task, **condition(row), **metric, **numbers, count: f"{row.n:,}", **seconds})
    rules = [len(lines)]
    if len(done.domains) > 1:
        lines += [{"task": f"mean of {domain}", score: _percent(value)} for domain, value in done.domains.items()]
        rules.append(len(lines))
    if len(done.rows) > 1:
        seconds = {"seconds": f"{done.seconds:.1f}"} if done.results and len(done.averages) == 1 else {}
        for one in done.averages:
            numbers = {score: _percent(one.accuracy), "loss": _loss(one.loss), count: f"{one.n:,}"}
            lines.append({"task": "average", **condition(one), **numbers, **seconds})
        for corruption, gap in done.gaps.items():
            lines.append({"task": "gap", "corruption": corruption or "", score: _percent(gap)})
    headings = [*_NAMES, score, _INTERVAL, "loss", count, "seconds"]
    shown = [head for head in headings if any(line.get(head) for line in lines)]
    left = range(sum(head in _NAMES for head in shown))
    title = f"{done.rows[0].model}, {done.rows[0].split} split"
    return Table(shown, [[line.get(head, "") for head in shown] for line in lines], title, left, rules)


def _model_of(row: Row) -> tuple[str, str]:
    return row.label, row.model_hash


def _column_of(row: Row) -> str:
    return " ".join(filter(None, [row.task, row.corruption, row.level]))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _interval(row: Row) -> str:
    return f"{_percent(row.low)} to {_percent(row.high)}"


def _loss(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.3f}"
