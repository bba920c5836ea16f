"""The models of a group at work: what each sees in the test pictures, and what merges and ensembles of them answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smelt.evaluation.provenance import row_of_logits
from smelt.evaluation.row import Row
from smelt.learning.neulig.batch_norm import re_estimated
from smelt.learning.neulig.collaborate import ensembled_logits, merged_logits
from smelt.learning.neulig.coopmap import CoopVecMap
from smelt.learning.neulig.features import ExpertFeatures
from smelt.learning.neulig.loaded_experts import BASE, LoadedExperts, load_experts
from smelt.learning.neulig.portland import Portland
from smelt.learning.neulig.portland_fitter import PortlandFitter
from smelt.suites.units import digest
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import picture_task

__all__ = ["WorkingGroup"]

_BATCH = 128


class WorkingGroup:
    """The models of a group at work: what each sees in the test pictures, and what a merge of them answers."""

    def __init__(self, pool: Mapping[str, Any], experts: Sequence[str], ask: Mapping[str, Any]):
        self.company: LoadedExperts = load_experts(pool, ask["device"], allow_pickle=ask.get("allow_pickle", False))
        self.names, self.limit = tuple(experts), ask["limit"]
        self.tasks: dict[str, PictureTask] = {name: picture_task(name) for name in experts}
        self.base_words = {"device": ask["device"], "model": "merged", "seed": ask["seed"]}
        self.hash = digest([self.company.everyone.hashes[name] for name in (BASE, *experts)])
        self.classify = self.company.everyone.network.classify

    def seen(self, task: str) -> ExpertFeatures:
        """The test pictures of a task as the base and the experts see them."""
        return self.company.features(self.tasks[task], "test", self.limit).of([BASE, *self.names])

    def batches(self, task: str) -> Iterator[tuple[slice, Any]]:
        stream, start = self.company.stream(self.tasks[task], "test", self.limit), 0
        for batch in stream.batches(_BATCH):
            yield slice(start, start + len(batch.labels)), batch
            start += len(batch.labels)

    def unlabelled(self, count: int | None) -> list[Any]:
        """Pictures of `val`, every batch with some of all tasks."""
        streams = [self.company.stream(task, "val", count) for task in self.tasks.values()]
        each = max(1, _BATCH // len(streams))
        batches = zip(*(stream.batches(each) for stream in streams), strict=False)
        return [torch.cat([batch.inputs for batch in together]) for together in batches]

    def portlands(self, fit: Mapping[str, Any]) -> PortlandFitter:
        words = {word: fit[word] for word in ("examples", "validation")}
        return PortlandFitter(self.company, self.names, self.tasks, **words)

    def both(
        self,
        portland: Portland,
        words: Mapping[str, Any],
        mode: str,
        table: CoopVecMap | None = None,
        pictures: int | None = None,
    ) -> list[Row]:
        """Merged and ensembled on every task, with one CoopVec for both.

        `map_bn` is `map` with BatchNorm's statistics estimated again on so many unlabelled `val` pictures of the task.
        """
        rows = []
        for task in self.names:
            seen = self.seen(task).of(self.names)
            with torch.no_grad():
                beta = portland.coopvec(seen.z)
                if mode.startswith("map"):
                    assert table is not None
                    beta = table.row(task).to(beta).expand(len(beta), -1)
                merged = self._merged(task, beta, mode, pictures)
                ensembled = ensembled_logits(self.classify, beta, seen.z, seen.head)
            rows.append(self.row(merged, seen, "merged", {**words, "way": "mix"}))
            rows.append(self.row(ensembled, seen, "ensembled", {**words, "way": "ensemble"}))
        return rows

    def _merged(self, task: str, beta: Tensor, mode: Any, pictures: int | None) -> Tensor:
        """The scores of the test pictures by merged models."""
        experts = self.company.experts(self.names)
        if mode != "map_bn":
            parts = [
                merged_logits(experts, beta[place], batch.inputs, batch.head, mode=mode)
                for place, batch in self.batches(task)
            ]
            return torch.cat(parts)
        used = self.company.stream(self.tasks[task], "val", pictures).batches(_BATCH)
        weights = re_estimated(experts.network, experts.merge(beta[0]), (batch.inputs for batch in used))
        return torch.cat(
            [
                self.classify(experts.network.encode(weights, batch.inputs), batch.head)
                for _, batch in self.batches(task)
            ]
        )

    def row(self, logits: Tensor, seen: ExpertFeatures, level: Any, about: Mapping[str, Any], **words: Any) -> Row:
        return row_of_logits(
            logits,
            seen.labels,
            task=self.tasks[seen.task],
            level=level,
            about={**self.base_words, **about},
            **{"model_hash": digest(self.hash, about.get("recipe_hash"), about["setting"], level), **words},
        )
