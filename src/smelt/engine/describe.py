"""A plan in words and numbers: what `smelt plan` prints and returns as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from smelt.engine.limits import limits
from smelt.engine.ready import Ready
from smelt.engine.shards import lay_out
from smelt.recipe.schema import parse_size

__all__ = ["PlanReport", "describe_plan"]

_LIBRARIES = 260 << 20
"""What the interpreter and torch hold before any work (measured as anonymous memory)."""


@dataclass(frozen=True)
class PlanReport:
    """What a merge would do."""

    stages: list[str]
    models: list[str]
    tensors: int
    merged: int
    copied: int
    parameters: int
    dtypes: dict[str, int]
    shards: list[str]
    bytes_in: int
    passes: int
    bytes_out: int
    work_memory: int
    peak_memory: int
    notes: list[str]
    recipe_hash: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe_plan(ready: Ready, threads: int | None = None) -> PlanReport:
    """Count everything that the plan knows."""
    plan = ready.plan
    work = limits(plan, threads, None).peak
    return PlanReport(
        stages=list(plan.stage_names),
        models=list(plan.parents),
        tensors=len(plan.items),
        merged=sum(not item.copied for item in plan.items),
        copied=sum(item.copied for item in plan.items),
        parameters=sum(item.info.count for item in plan.items),
        dtypes=dict(Counter(item.info.dtype for item in plan.items)),
        shards=[shard.name for shard in lay_out(plan.items, parse_size(plan.recipe.shard_size))],
        bytes_in=plan.bytes_in,
        passes=_passes(ready),
        bytes_out=plan.bytes_out,
        work_memory=work,
        peak_memory=work + _LIBRARIES,
        notes=list(plan.notes),
        recipe_hash=plan.recipe.hash,
    )


def _passes(ready: Ready) -> int:
    """How often the inputs are read: once to merge, and up to thrice for each stage that must rank them first."""
    most = 1
    for item in ready.plan.items:
        folds = [run.stage.fold_for(run.parameters) for run in item.stages]
        most = max(most, 1 + sum(fold.passes for fold in folds if fold is not None))
    return most
