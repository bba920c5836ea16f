"""The differentiable merge: the loss of a merged model as a function of the numbers that merge it.

    W_k = base_k + sum_i λ_{i,k} τ_{i,k}                 dL/dλ_{i,k} = < dL/dW_k, τ_{i,k} >

No autograd graph runs through the merge. Once per step the tensors are merged without gradients; the network is
differentiated with respect to the merged tensors alone; and the gradient of each of them is turned into gradients of
the learned numbers in the moment in which it is known, and let go. So beside the changes (read once each way) there
are one model's weights and never more than a few tensors' gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from smelt.learning.task_vectors import TaskVectors
from smelt.learning.tensor_groups import Level, groups_of
from smelt.optimise.losses import LOSSES, Loss

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.learning.parallel_passes import Passes
    from smelt.tasks.examples import ExampleBatch

__all__ = ["Merge", "MergedObjective", "Weighted"]


class Merge(Protocol):
    """A merged model as a function of its parameters, and the transpose of that function's derivative."""

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is learned."""

    @property
    def keys(self) -> Iterable[str]:
        """The tensors that are merged."""

    def weight(self, key: str) -> Tensor:
        """The merged tensor at the present parameters; valid until the next call for this key."""

    def pull(self, key: str, gradient: Tensor, into: Mapping[str, Tensor]) -> None:
        """Given dL/dW of one tensor, add what it means for the parameters. Called from several threads."""

    def settle(self, gradients: Mapping[str, Tensor]) -> None:
        """After all tensors: what does not depend on the data, in place."""


class MergedObjective:
    """The loss of a merged model over the batches of all tasks: the sum over tasks of the mean over examples."""

    def __init__(self, merge: Merge, passes: Passes, loss: Loss = "entropy"):
        self._merge, self._passes, self._loss = merge, passes, loss
        self.parameters = dict(merge.parameters)
        self.words = {"loss": loss, **getattr(merge, "words", {})}

    def gradients(self, batches: Mapping[str, ExampleBatch]) -> tuple[dict[str, Tensor], dict[str, float]]:
        import torch

        with torch.no_grad():
            merged = self._passes.each(self._merge.weight, self._merge.keys)
        gradients, losses = self._passes.back(merged, batches, LOSSES[self._loss], self._merge.pull, self.parameters)
        with torch.no_grad():
            self._merge.settle(gradients)
        return gradients, losses

    def after_step(self) -> None:
        after = getattr(self._merge, "after_step", None)
        if after is not None:
            after()


class Weighted:
    """base + sum_i λ_i τ_i with one λ per model and group of tensors."""

    def __init__(self, deltas: TaskVectors, level: Level, init: float = 0.3, *, clamp: bool = False):
        import torch

        self._deltas, self._clamp = deltas, clamp
        self.level, self.groups = level, groups_of(deltas.keys, level)
        self._column = {key: number for number, keys in enumerate(self.groups.values()) for key in keys}
        self.coefficients = torch.full((len(deltas.names), len(self.groups)), init, device=deltas.device)
        self.parameters = {"coefficients": self.coefficients}
        self.keys = deltas.keys
        self.words = {"level": level, "clamp": clamp}
        self._merged = {key: torch.empty_like(tensor) for key, tensor in deltas.base.items()}

    def weight(self, key: str) -> Tensor:
        import torch

        out, rows = self._merged[key], self._deltas.rows(key)
        column = self.coefficients[:, self._column[key]]
        if rows.dtype == torch.float32:
            torch.addmv(self._deltas.base[key].view(-1), rows.T, column, out=out.view(-1))
        else:
            out.copy_(self._deltas.base[key])
            for row, value in zip(rows, column.tolist(), strict=True):
                out.view(-1).add_(row, alpha=value)
        return out

    def pull(self, key: str, gradient: Tensor, into: Mapping[str, Tensor]) -> None:
        import torch

        rows, flat = self._deltas.rows(key), gradient.reshape(-1)
        if rows.dtype == torch.float32:
            products = torch.mv(rows, flat)
        else:
            products = torch.stack([torch.dot(row.float(), flat) for row in rows])
        into["coefficients"][:, self._column[key]] += products

    def settle(self, gradients: Mapping[str, Tensor]) -> None:
        """Nothing is added to the loss."""

    def after_step(self) -> None:
        """Keep coefficients between 0 and 1, where that was asked for."""
        if self._clamp:
            self.coefficients.clamp_(0.0, 1.0)
