"""A Source as the weights of an ordinary model folder: a plan without any merging, run by the same engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from smelt.engine.plan.limits import limits
from smelt.engine.plan.plan import Item, Plan, Tap
from smelt.engine.run.executor import Executor
from smelt.engine.sink.output import OutputFolder
from smelt.engine.sink.sink import FolderSink
from smelt.errors import CorruptFile
from smelt.formats.layout import natural
from smelt.formats.source import Source
from smelt.recipe.schema import Recipe
from smelt.system.progress import Progress
from smelt.version import __version__

__all__ = ["copy_plan", "copy_weights"]


class _Unpacking(Progress):
    def begin(self, what: str, total: int) -> None:
        """Says what is done here; the engine would call it merging."""
        super().begin("unpacking", total)


def copy_plan(source: Source, shard_size: str) -> Plan:
    """Every tensor as it is."""
    if not source.tensors:
        raise CorruptFile(f"{source.label}: holds no tensors")
    recipe = Recipe.parse(
        {"pool": {"models": {"model": source.label}}, "merge": "passthrough", "shard_size": shard_size}
    )
    items = tuple(
        Item(key, number, source.tensors[key], 0.0, Tap("model", source, key))
        for number, key in enumerate(sorted(source.tensors, key=natural))
    )
    return Plan(recipe, items, (), source.tied, {}, (), {"model": source})


def copy_weights(
    plan: Plan, folder: OutputFolder, *, threads: int | None, quiet: bool
) -> tuple[Mapping[str, tuple[str, int]], Mapping[str, bytes | Path]]:
    """Write the weights; returns the hashes of the shards, and their index where there are several."""
    bounds = limits(plan, threads, None)
    sink = FolderSink(folder, plan, {"format": "pt", "smelt": __version__})
    try:
        with _Unpacking(quiet) as progress:
            Executor(plan, sink, progress, threads=bounds.threads, memory=bounds.memory).run()
        return sink.hashes(), sink.files()
    finally:
        sink.close()
