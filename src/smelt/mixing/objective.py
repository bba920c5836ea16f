"""What the routers are learned for: sure predictions on every task, or right ones where labels are given.

    L = Σ_tasks mean_examples H(softmax logits)          or the mean cross-entropy with the labels

Tasks are computed apart, on a CPU by threads with one core each, and their gradients added up in a fixed order: the
number of threads does not change a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from smelt.mixing.network import MixedNetwork
from smelt.optimise.losses import LOSSES, Loss
from smelt.system.threads import single_core_pool
from smelt.tasks.examples import ExampleBatch

__all__ = ["RouterObjective", "router_objective"]


class RouterObjective:
    """The `learn.loop.Objective` of a mixture. Made by `router_objective`, which ends its threads."""

    def __init__(self, mixed: MixedNetwork, loss: Loss, pool: ThreadPoolExecutor | None):
        self._mixed, self._loss, self._pool = mixed, loss, pool
        self.parameters: Mapping[str, Tensor] = mixed.parameters
        self.words: dict[str, Any] = {"loss": loss, "routed": mixed.routed, "experts": list(mixed.experts)}

    def gradients(self, batches: Mapping[str, ExampleBatch]) -> tuple[Mapping[str, Tensor], Mapping[str, float]]:
        """The gradient of the summed losses by parameter, and the loss by task."""
        work = map if self._pool is None else self._pool.map
        total: list[Tensor] | None = None
        losses: dict[str, float] = {}
        for task, (loss, gradients) in zip(batches, work(self._one, batches.values()), strict=True):
            losses[task] = loss
            total = gradients if total is None else [old.add_(new) for old, new in zip(total, gradients, strict=True)]
        assert total is not None
        return dict(zip(self.parameters, total, strict=True)), losses

    def _one(self, batch: ExampleBatch) -> tuple[float, list[Tensor]]:
        with torch.enable_grad():
            logits = self._mixed.logits(batch.inputs, batch.head)
            loss = LOSSES[self._loss](logits, batch.labels).mean()
            gradients = torch.autograd.grad(loss, list(self.parameters.values()))
        return float(loss.detach()), list(gradients)


@contextmanager
def router_objective(
    mixed: MixedNetwork, loss: Loss = "entropy", *, threads: int | None = None
) -> Iterator[RouterObjective]:
    """The objective, with threads for as long as the `with` lasts; as many as torch uses unless said otherwise."""
    if mixed.network.device != "cpu":
        yield RouterObjective(mixed, loss, None)
        return
    with single_core_pool(threads or torch.get_num_threads(), "smelt-mix") as pool:
        yield RouterObjective(mixed, loss, pool)
