"""A plan in words and numbers: what `smelt plan` prints and returns as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.display.blocks import Facts
from smelt.display.shown import Shown
from smelt.engine.plan.ready_merge import ReadyMerge
from smelt.engine.run.backends import needs_torch, run_limits
from smelt.engine.run.device import AUTO, check_word, choose
from smelt.engine.run.estimate import shown_seconds
from smelt.engine.sink.shards import lay_out
from smelt.formats.source import Source
from smelt.recipe.schema import parse_size

__all__ = ["DataNeeds", "PlanReport", "describe_plan"]

_INTERPRETER, _TORCH = 38 << 20, 222 << 20
"""What the interpreter holds before any work, and torch where it is loaded (measured as anonymous memory)."""


@dataclass(frozen=True)
class DataNeeds:
    """What a method that looks at data needs before the merge, in bytes, for one model at a time."""

    method: str
    examples: int
    tokens: int
    device: int
    main: int
    disk: int
    """Of the statistics of all models, and the change of one where it lies there."""
    passes: int
    note: str

    def __str__(self) -> str:
        return (
            f"{self.method}, one model at a time, {self.examples:,} texts of {self.tokens} tokens: "
            f"{self.device / 1e9:,.1f} GB where it computes (one GPU), {self.main / 1e9:,.1f} GB of main memory, "
            f"{self.disk / 1e9:,.1f} GB of disk, {self.passes} pass{'es' * (self.passes > 1)} over the data"
        )


@dataclass(frozen=True)
class PlanReport(Shown):
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
    bytes_models: int
    """Of the models' files, once each: what must lie on a disk."""
    absent: list[str]
    """Models whose files are not here; they are planned from their shapes."""
    bytes_absent: int
    device: str
    work_memory: int
    peak_memory: int
    seconds: dict[str, float]
    """Estimates of the whole merge, on the cores that are here and on a GPU such as an H200, by the kind of device."""
    auto: str
    """What `device: auto` would take on this machine."""
    auto_reason: str
    looking: list[DataNeeds]
    """What looking at data needs before the merge, for each method that does."""
    notes: list[str]
    recipe_hash: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self) -> list[Facts]:
        kinds = ", ".join(f"{count} {code}" for code, count in self.dtypes.items())
        shards = self.shards[0] if len(self.shards) == 1 else f"{len(self.shards)} shards"
        here = f", of which {self.bytes_absent / 1e6:,.1f} MB are not here" if self.absent else ""
        pairs = [
            ("stages", " + ".join(self.stages)),
            ("models", ", ".join(self.models)),
            ("tensors", f"{self.merged} merged, {self.copied} copied ({kinds}); {self.parameters:,} parameters"),
            ("reads", f"{self.bytes_in / 1e6:,.1f} MB, up to {self.passes} times"),
            ("writes", f"{self.bytes_out / 1e6:,.1f} MB in {shards}"),
            ("disk", f"{self.bytes_models / 1e6:,.1f} MB of models{here}, and {self.bytes_out / 1e6:,.1f} MB more"),
            (
                "memory",
                f"about {self.peak_memory / 1e6:,.0f} MB at most, of which {self.work_memory / 1e6:,.0f} MB work "
                f"({self.device})",
            ),
        ]
        cpu, cuda = (shown_seconds(self.seconds[kind]) for kind in ("cpu", "cuda"))
        on_gpu = "" if self.auto_reason.startswith("no GPU") else f", {cuda} on a GPU; device auto takes {self.auto}"
        pairs.append(("time", f"estimated: {cpu} on the CPU{on_gpu}"))
        for one in self.looking:
            pairs += [("looking", str(one)), ("note", f"{one.method}: {one.note}")]
        return [Facts([*pairs, *(("note", note) for note in self.notes)])]


def describe_plan(
    ready: ReadyMerge,
    threads: int | None = None,
    memory: int | str | None = None,
    device: str = "cpu",
    looking: Sequence[DataNeeds] = (),
) -> PlanReport:
    """Count everything that the plan knows. A `device` need not be on this machine."""
    from smelt.models.weightless import ShapeSource

    plan = ready.plan
    choice = choose(plan, threads)
    device = choice.device if check_word(device) == AUTO else device
    work = run_limits(plan, threads, memory, device).peak
    absent = {name: source for name, source in plan.parents.items() if isinstance(source, ShapeSource)}
    return PlanReport(
        stages=list(plan.stage_names),
        models=list(plan.parents),
        tensors=len(plan.items),
        merged=sum(not item.copied for item in plan.items),
        copied=sum(item.copied for item in plan.items),
        parameters=sum(item.info.count for item in plan.items),
        dtypes=dict(Counter(item.info.dtype for item in plan.items)),
        shards=[
            shard.name for shard in lay_out(plan.stored_tensors, parse_size(plan.recipe.shard_size), plan.components)
        ],
        bytes_in=plan.bytes_in,
        passes=_passes(ready),
        bytes_out=plan.bytes_out,
        bytes_models=_bytes_of(plan.parents.values()),
        absent=list(absent),
        bytes_absent=_bytes_of(absent.values()),
        device=device,
        work_memory=work,
        peak_memory=work + _INTERPRETER + (_TORCH if needs_torch(plan, device) else 0),
        seconds={name: round(one, 1) for name, one in asdict(choice.seconds).items()},
        auto=choice.device,
        auto_reason=choice.reason,
        looking=list(looking),
        notes=[*_from_shapes(absent), *plan.notes],
        recipe_hash=plan.recipe.hash,
    )


def _from_shapes(absent: Iterable[str]) -> list[str]:
    names = ", ".join(absent)
    return [f"planned from shapes, since their files are not on this machine: {names}"] if names else []


def _bytes_of(sources: Iterable[Source]) -> int:
    """The size of all files, each counted once; of models in memory and of shapes, that of their numbers."""
    files: dict[Path, int] = {}
    total = 0
    for source in sources:
        files |= {Path(file).resolve(): seen.size for file, seen in source.files.items()}
        total += 0 if source.files else sum(info.nbytes for info in source.tensors.values())
    return total + sum(files.values())


def _passes(ready: ReadyMerge) -> int:
    """How often the inputs are read: once to merge, and up to thrice for each stage that must rank them first."""
    most = 1
    for item in ready.plan.items:
        folds = [run.stage.fold_for(run.parameters) for run in item.stages]
        most = max(most, 1 + sum(fold.passes for fold in folds if fold is not None))
    return most
