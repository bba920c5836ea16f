"""Which experts a task's pictures choose: the mean gate of every expert, per task, per MLP and over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.mixing.network import MixedNetwork
    from smelt.mixing.router import Router
    from smelt.tasks.examples import ExampleStream
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.registry import Tasks

__all__ = ["routing", "routing_map", "routing_of_streams", "watch_gates"]

_BATCH = 64


def routing(
    mixed: Any,
    tasks: Tasks = "clip8",
    *,
    split: str = "val",
    limit: int | None = 256,
    device: str = "cpu",
    data: DataCache | None = None,
) -> dict[str, Any]:
    """The analysis `routing`: how a mixed model (a folder or a loaded one) routes the pictures of tasks.

    Plain data for a heat map: `rows` (tasks) × `columns` (experts) of mean gates in `matrix`, the same for each MLP in
    `layers` and `by_layer` (layer, then task, then expert), and of how many pictures of which split.
    """
    from smelt.mixing.classifier import MixedClassifier, load_mixed
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.registry import picture_tasks

    model = mixed if isinstance(mixed, MixedClassifier) else load_mixed(mixed, device=device)
    chosen, pictures_of = picture_tasks(tasks), data or DataCache()
    found: dict[str, dict[str, list[float]]] = {}
    for task in chosen:
        task.check_split(split)
        part = pictures_of.subset(task, split, limit, model.preprocess)
        head = model.head(task.classes, task.templates)
        with watch_gates(model.routers) as seen:
            for pictures, _ in part.batches(_BATCH, keep=pictures_of.free_bytes):
                model.logits(pictures, head)
        found[task.name] = seen.means()
    return _analysis(found, model.experts, split, limit)


def routing_of_streams(
    mixed: MixedNetwork, streams: Mapping[str, ExampleStream], *, limit: int | None = 256
) -> dict[str, Any]:
    """The same analysis of a network in memory, over the first `limit` examples of each stream."""
    found: dict[str, dict[str, list[float]]] = {}
    splits = {stream.budget.split for stream in streams.values()}
    for stream in streams.values():
        count = len(stream) if limit is None else min(limit, len(stream))
        with watch_gates(mixed.routers) as seen, torch.inference_mode():
            for start in range(0, count, _BATCH):
                batch = stream.batch(range(start, min(start + _BATCH, count)))
                mixed.logits(batch.inputs, batch.head)
        found[stream.name] = seen.means()
    return _analysis(found, mixed.experts, splits.pop() if len(splits) == 1 else None, limit)


class GateSums:
    """The sums of all gates that routers gave while they were watched."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self.samples: dict[str, int] = {}

    def add(self, name: str, gates: Tensor) -> None:
        self._sums[name] = self._sums.get(name, torch.zeros(())) + gates.detach().double().sum(dim=0).cpu()
        self.samples[name] = self.samples.get(name, 0) + len(gates)

    def means(self) -> dict[str, list[float]]:
        """The mean gate of each expert, by MLP."""
        if not self._sums:
            raise RecipeError("no picture went through the routers; give at least one")
        return {name: (total / self.samples[name]).tolist() for name, total in self._sums.items()}


@contextmanager
def watch_gates(routers: Mapping[str, Router]) -> Iterator[GateSums]:
    """Sum up what routers say in the `with`; from one thread at a time."""
    seen = GateSums()

    def listen(name: str) -> Any:
        def hear(module: Any, inputs: Any, gates: Tensor) -> None:
            seen.add(name, gates)

        return hear

    handles = [router.register_forward_hook(listen(name)) for name, router in routers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _analysis(
    found: Mapping[str, Mapping[str, Sequence[float]]], experts: Iterable[str], split: str | None, limit: int | None
) -> dict[str, Any]:
    layers = list(next(iter(found.values())))
    return {
        "analysis": "routing",
        "rows": list(found),
        "columns": list(experts),
        "matrix": [_mean(list(by_layer.values())) for by_layer in found.values()],
        "layers": layers,
        "by_layer": [[list(found[task][layer]) for task in found] for layer in layers],
        "split": split,
        "limit": limit,
    }


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def routing_map(found: Mapping[str, Any]) -> dict[str, Any]:
    """Gates as the heat map of tasks and experts that the report draws."""
    return {
        "title": "Routing",
        **{word: found[word] for word in ("rows", "columns", "matrix")},
        "note": "the mean gate that a task's pictures give to each expert, over all routers",
        "signed": True,
    }
