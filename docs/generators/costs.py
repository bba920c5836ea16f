"""What each stage costs: from its record, from results/method_costs.json, and from the rows of the suites.

The record says how often the weights are read and how much of a tensor has to be in memory at once. The benchmark has
the CPU seconds beside averaging. What looking at data took is in the rows of clip8 and llm5.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
SUITES = {"clip8": "pictures", "llm5": "examples"}
BEHIND = {"stitch": "localize"}
_LEARNED = {
    "learning": "While it learns, memory holds the changes of the models, one model and its gradients. Then one merge.",
    "mixing": "While it learns, memory holds the routed changes of all models. The output holds them too.",
    "measurement": "The data pass the network once for every layer or block. Then one merge, that of `regmean`.",
}


def costs(stage: Any) -> str:
    """The lines of a stage's page."""
    lines = [*_declared(stage), *_measured(stage), *_data(stage)]
    return "\n".join(f"- {line}" for line in lines)


def _declared(stage: Any) -> list[str]:
    from smelt.methods import stages
    from smelt.methods.explanation import declared_costs

    if stage.name in stages:
        return declared_costs(stages[stage.name])
    return [_LEARNED[stage.function.__module__.split(".")[1]]]


def _measured(stage: Any) -> list[str]:
    found = _benchmark()["stages"].get(stage.name)
    if found is None:
        return []
    pool = {1: "one expert", 2: "two experts"}.get(found["models"], f"the {found['models']} experts")
    if stage.name == "average":
        return [f"A merge of {pool} of clip8 took {found['cpu_s']:.1f} s of one core; other pages count in this unit."]
    beside = {
        "step": ", with it before the mean,",
        "basis": ", with it around the mean,",
        "wrapper": ", with it after the mean,",
    }.get(stage.kind, "")
    times = found["cpu_s"] / found["average_cpu_s"]
    much = f"{times:.1f}" if times < 10 else f"{times:.0f}"
    lines = [f"A merge of {pool} of clip8{beside} took {much} times the CPU of averaging them."]
    lines += ["Those are full fine-tunes; adapters of low rank cost less."] if stage.kind == "basis" else []
    work, usual = found["work_bytes"] / 1e6, _benchmark()["stages"]["average"]["work_bytes"] / 1e6
    return lines + ([f"It worked in {work:.0f} MB, averaging in {usual:.0f} MB."] if work > 2 * usual else [])


def _data(stage: Any) -> list[str]:
    lines = []
    for suite, unit in SUITES.items():
        for seconds, device, images, labels in _looked(suite, BEHIND.get(stage.name, stage.name)):
            how = {0: f"{images:,} unlabelled {unit}", images: f"{images:,} labelled {unit}"}
            seen = how.get(labels, f"{images:,} {unit}, {labels:,} of them labelled,")
            lines.append(f"Looking at {seen} of {suite} took {_time(seconds)} on a {_device(device)}.")
    return lines


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _device(name: str) -> str:
    return {"cuda": "GPU", "cpu": "CPU"}.get(name, name)


@functools.cache
def _benchmark() -> Any:
    return json.loads((RESULTS / "method_costs.json").read_text(encoding="utf-8"))


@functools.cache
def _looked(suite: str, entry: str) -> tuple[tuple[float, str, int, int], ...]:
    """Seconds, device, examples and labels of an entry that looks at data and is named like the stage."""
    from smelt.evaluation.row import CostRow, Row, read_rows

    rows = read_rows(RESULTS / suite / "rows.jsonl")
    spent = [row for row in rows if isinstance(row, CostRow) and row.entry == entry and row.prepare_seconds]
    budget = next((row.data_budget for row in rows if isinstance(row, Row) and row.entry == entry), None)
    return tuple(
        (row.prepare_seconds, row.prepare_device or row.device, budget.images, budget.labels) for row in spent if budget
    )
