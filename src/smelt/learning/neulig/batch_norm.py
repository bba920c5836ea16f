"""BatchNorm statistics of a merged model, estimated again on examples.

The mean of the experts' statistics is not the statistics of the merged model. They are measured here as training
does: every layer normalises with its batch's own statistics, and what comes in is counted. Weights in, weights with
other `running_mean` and `running_var` out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.learning.neulig.experts import EncodingNetwork

__all__ = ["re_estimated"]


class _Moments:
    """Sums over all that came into one layer, per channel."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: tuple[Tensor, Tensor] | None = None

    def add(self, inputs: Tensor) -> None:
        wide = inputs.detach().double().transpose(0, 1).flatten(1)
        new = wide.sum(dim=1), wide.square().sum(dim=1)
        self.count += wide.shape[1]
        self.sums = new if self.sums is None else (self.sums[0] + new[0], self.sums[1] + new[1])

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """The variance with ddof 1, as BatchNorm keeps it."""
        assert self.sums is not None
        mean = self.sums[0] / self.count
        spread = (self.sums[1] - self.count * mean.square()).clamp_min(0)
        return mean, spread / max(self.count - 1, 1)


def re_estimated(network: EncodingNetwork, weights: Mapping[str, Tensor], batches: Iterable[Any]) -> dict[str, Tensor]:
    """The weights with BatchNorm statistics of `batches` (inputs of the network); a model without any as it is."""
    layers = {
        name: layer
        for name, layer in network.module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and f"{name}.running_mean" in weights
    }
    if not layers:
        return dict(weights)
    moments = {name: _Moments() for name in layers}
    with torch.no_grad(), _measuring(layers, moments):
        for inputs in batches:
            network.encode(weights, inputs)
    unseen = [name for name, one in moments.items() if one.sums is None]
    if unseen:
        raise RecipeError(f"nothing came into {unseen[0]!r}: give at least one batch of inputs")
    found = dict(weights)
    for name, one in moments.items():
        for word, tensor in zip(("running_mean", "running_var"), one.mean_and_variance(), strict=True):
            found[f"{name}.{word}"] = tensor.to(weights[f"{name}.{word}"])
    return found


@contextmanager
def _measuring(
    layers: Mapping[str, nn.modules.batchnorm._BatchNorm], moments: Mapping[str, _Moments]
) -> Iterator[None]:
    """Layers that use and count their batch's statistics, and keep their own as they are."""
    handles = []
    before = {name: (layer.training, layer.track_running_stats) for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            handles.append(layer.register_forward_pre_hook(_counting(moments[name])))
            layer.train()
            layer.track_running_stats = False  # in training: neither counts batches nor moves what it has
        yield
    finally:
        for handle in handles:
            handle.remove()
        for name, layer in layers.items():
            training, layer.track_running_stats = before[name]
            layer.train(training)


def _counting(moments: _Moments) -> Any:
    def hook(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        moments.add(inputs[0])

    return hook
