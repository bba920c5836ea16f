"""One model's change from the base, worked out tensor by tensor from the two models: neither is rounded.

    τ = model - base        both in the format of their checkpoints (bfloat16: 2 bytes a number each), τ in float32

What `TaskVectors` holds of one model in float32, to the last bit, in half the room where the checkpoint allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.errors import IncompatibleModels
from smelt.learning.task_vectors import check_row, merge_faults
from smelt.ops.narrow import narrow

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.formats.source import Source

__all__ = ["OneChange"]


class OneChange:
    """A model beside its base, where the network computes."""

    def __init__(self, base: Mapping[str, Tensor], name: str, source: Source):
        import torch

        faults = merge_faults(base, {name: source})
        if faults:
            raise IncompatibleModels(faults)
        self.base, self.names, self.keys = base, (name,), tuple(base)
        self.device = next(iter(base.values())).device
        self._model: dict[str, Tensor] = {}
        for key in self.keys:
            own = base[key]
            numbers = torch.empty(own.numel())
            source.read(source.tied.get(key, key), 0, numbers)
            self._model[key] = narrow(numbers.view(own.shape)).to(self.device)
            check_row(self.delta(name, key), name, key)

    def delta(self, model: str, key: str) -> Tensor:
        """The change of one tensor, in float32 and in the tensor's shape: a new one at every call."""
        import torch

        return self._model[key].to(torch.float32, copy=True).sub_(self.base[key])
