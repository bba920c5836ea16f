"""A batch through a network, with a handle on every example: where each weight met its inputs, and the graph behind.

One weight serves all examples of a batch, so that autograd alone gives the sum of their gradients. Here the batch runs
under `vmap`, one example at a time as far as the network can tell. A layer whose weights' gradient is known by hand
(squared_gradients.py) keeps its inputs and adds zeros to its outputs, one set per example: their gradient is all that
is missing. Every other weight is handed over once per example. Nothing is assumed of the network but that `vmap` can
run it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from smelt.measurement.squared_gradients import GradientScratch, known_layer

if TYPE_CHECKING:
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleBatch

__all__ = ["Call", "Capture", "Graph", "per_example"]


@dataclass(frozen=True)
class Call:
    """One use of a layer: its inputs and the zeros that were added to its outputs, both with the examples in front."""

    name: str
    inputs: Tensor
    zeros: Tensor


@dataclass(frozen=True)
class Graph:
    """Scores [examples, classes] and what they can be differentiated by."""

    logits: Tensor
    calls: tuple[Call, ...]
    loose: Mapping[str, Tensor]
    """The weights of no known layer, once per example."""

    def gradients(self, cotangent: Tensor, *, last: bool) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """d(cotangent · logits) by the outputs of every call and by every loose weight, per example."""
        leaves = [*(call.zeros for call in self.calls), *self.loose.values()]
        found = torch.autograd.grad(self.logits, leaves, cotangent, retain_graph=not last, allow_unused=True)
        calls = len(self.calls)
        return list(found[:calls]), dict(zip(self.loose, found[calls:], strict=True))


class Capture:
    """A network with hooks on its known layers. It must be its owner's alone: two threads need two copies."""

    def __init__(self, network: Network):
        self._network = network
        self.scratch = GradientScratch()
        self._weights = network.weights()
        self.modules: dict[str, nn.Module] = _layers(network)
        self._loose = [key for key in network.keys if key not in _parameters(self.modules)]
        self._shapes: dict[Any, list[tuple[str, torch.Size]]] = {}
        self._seen: list[tuple[str, Tensor]] = []
        self._zeros: Sequence[Tensor] | None = None
        for name, module in self.modules.items():
            module.register_forward_hook(self._hook(name), with_kwargs=True)

    def run(self, batch: ExampleBatch) -> Graph:
        """The graph of a batch."""
        shapes = self._output_shapes(batch)
        count = len(batch.labels)
        device = self._network.device
        zeros = [torch.zeros(count, *shape, device=device, requires_grad=True) for _, shape in shapes]
        loose = {
            key: self._weights[key].expand(count, *self._weights[key].shape).clone().requires_grad_()
            for key in self._loose
        }

        def one(weights: Mapping[str, Tensor], inputs: Any, zeros: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
            self._zeros, self._seen = zeros, []
            logits = self._network.logits(weights, _each(inputs, lambda tensor: tensor[None]), batch.head)[0]
            return logits, [tensor for _, tensor in self._seen]

        try:
            logits, inputs = torch.vmap(one)(loose, batch.inputs, zeros)
        finally:
            self._zeros, self._seen = None, []
        calls = [Call(name, x.detach(), z) for (name, _), x, z in zip(shapes, inputs, zeros, strict=True)]
        return Graph(logits, tuple(calls), loose)

    def bytes_each(self, batch: ExampleBatch) -> int:
        """Roughly what one example takes: outputs and their gradients, and the products of all pairs of its tokens."""
        shapes = self._output_shapes(batch)
        numbers = 1 + sum(self._weights[key].numel() for key in self._loose)
        for _, shape in shapes:
            tokens = shape.numel() // shape[-1]
            numbers += 6 * shape.numel() + shape.numel() * tokens
        return 4 * numbers

    def _hook(self, name: str) -> Callable[..., Tensor]:
        def keep(module: nn.Module, given: Any, words: Any, output: Tensor) -> Tensor:
            inputs = given[0] if given else words["input"]
            place = len(self._seen)
            if self._zeros is None:  # only looking
                self._seen.append((name, output))
                return output
            self._seen.append((name, inputs))
            return output + self._zeros[place]

        return keep

    def _output_shapes(self, batch: ExampleBatch) -> list[tuple[str, torch.Size]]:
        """Which layers are called, in order, with which shapes: seen on one example, remembered for its shape."""
        first = _each(batch.inputs, lambda tensor: tensor[:1])
        key = str(_each(first, lambda tensor: tensor.shape))
        if key not in self._shapes:
            self._seen = []
            with torch.no_grad():
                self._network.logits({}, first, batch.head)
            self._shapes[key] = [(name, output.shape) for name, output in self._seen]
            self._seen = []
            called = {name for name, _ in self._shapes[key]}
            unused = _parameters({name: self.modules[name] for name in self.modules.keys() - called})
            # The weights of a layer that is never called may be used all the same, by whoever holds the layer.
            self._loose += [key for key in self._network.keys if key in unused and key not in self._loose]
        return self._shapes[key]


@contextlib.contextmanager
def per_example() -> Iterator[None]:
    """What has to be set for all threads: attention that `vmap` and hooks can see into."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _layers(network: Network) -> dict[str, nn.Module]:
    """The layers that are known by hand, and whose weights nobody else has."""
    places = Counter(id(tensor) for _, tensor in network.module.named_parameters(remove_duplicate=False))
    wanted = set(network.keys)
    return {
        name: module
        for name, module in network.module.named_modules()
        if known_layer(module)
        and wanted & _parameters({name: module})
        and all(places[id(tensor)] == 1 for tensor in module.parameters(recurse=False))
    }


def _parameters(modules: Mapping[str, nn.Module]) -> set[str]:
    return {
        f"{name}.{own}".removeprefix(".")
        for name, module in modules.items()
        for own, _ in module.named_parameters(recurse=False)
    }


def _each(inputs: Any, change: Callable[[Tensor], Any]) -> Any:
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: _each(value, change) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(_each(value, change) for value in inputs)
    return inputs
