"""BatchNorm by its statistics, in plain operations.

    y = a x + b          a = weight / sqrt(var + eps)          b = bias - a mean

torch's own kernel does not differentiate by the statistics. A merged model has merged statistics, and what is learned
about the merge must feel them too. A merge that goes beyond its models (task arithmetic) can make a variance negative:
it then counts as zero, where torch's kernel would give NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["with_differentiable_norms"]


# The names of these two classes are printed into the hashes of convolutional experts, which rows hold: they stay.
class _PlainBatchNorm1d(nn.BatchNorm1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else _normalised(self, x)


class _PlainBatchNorm2d(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else _normalised(self, x)


_DIFFERENTIABLE: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: _PlainBatchNorm1d,
    nn.BatchNorm2d: _PlainBatchNorm2d,
}


def with_differentiable_norms(model: Any) -> Any:
    """Change a model in place: while it does not train, its batch norms with statistics of their own are plain ones."""
    for module in model.modules():
        if type(module) in _DIFFERENTIABLE and module.running_var is not None:
            module.__class__ = _DIFFERENTIABLE[type(module)]
    return model


def _normalised(norm: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = torch.rsqrt(norm.running_var.float().clamp(min=0) + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    shift = -norm.running_mean * scale
    if norm.bias is not None:
        shift = shift + norm.bias
    channels = (-1, *[1] * (x.ndim - 2))
    return torch.addcmul(shift.to(x.dtype).view(channels), x, scale.to(x.dtype).view(channels))
