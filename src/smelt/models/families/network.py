"""A model as a function of its weights: what statistics are measured on, and what learning differentiates.

    logits = f(weights, inputs)            weights: the tensors that the family merges, under the model's own keys

A family offers its models in this form; what measures or learns from them never asks which family it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.models.families.causal_lm.block_calls import BlockCall, WeightsOf

__all__ = [
    "Blockwise",
    "Divided",
    "Encoder",
    "LiveWeights",
    "ModuleNetwork",
    "Network",
    "Replicable",
    "TokenNetwork",
    "network_of",
    "sharing_copy",
]


class Network(Protocol):
    """A loaded model whose merged weights can be replaced by any others of the same shapes."""

    @property
    def module(self) -> nn.Module:
        """The whole model; the names of its parameters are the model's keys."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The weights that are merged; all others are fixed."""

    @property
    def device(self) -> str:
        """Where it computes."""

    def weights(self) -> dict[str, Tensor]:
        """Its own merged weights, detached, in fp32."""

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        """Scores [n, classes] in fp32, differentiable in `weights`; keys that are not given keep their own values."""


@runtime_checkable
class Encoder(Protocol):
    """A network that turns inputs into features, whose scores are their cosines with the rows of a head."""

    def encode(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Features [n, width] in fp32, not normalised; `weights` may be differentiated and mapped over (vmap)."""

    def classify(self, features: Tensor, head: Tensor) -> Tensor:
        """Scores [n, classes]: the features normalised, times the head's rows, times the model's scale."""


@runtime_checkable
class Divided(Protocol):
    """A network whose larger part does not know the head: pictures of several tasks go through it at once."""

    def embed(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Features [n, width] in fp32, differentiable in `weights`."""

    def score(self, features: Tensor, head: Tensor | None) -> Tensor:
        """Scores [n, classes] of features: `logits` is this after `embed`."""


@runtime_checkable
class Replicable(Protocol):
    """A network that can be had several times, for threads: one module runs with one set of weights at a time."""

    def replica(self) -> Network:
        """The same network on the same numbers, with modules of its own."""


@runtime_checkable
class TokenNetwork(Protocol):
    """A network of texts: its inputs are a TokenBatch, and a row of its scores is one judged token, not one example."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens that a score is given to."""


@runtime_checkable
class Blockwise(Protocol):
    """A network of blocks, each of which can be differentiated on its own, with weights made for it alone."""

    @property
    def module(self) -> nn.Module:
        """The whole model."""

    @property
    def blocks(self) -> Mapping[str, tuple[str, ...]]:
        """The blocks in their order, and the weights of each by their whole names; none where they share weights."""

    def cut(self, weights_of: WeightsOf) -> AbstractContextManager[list[BlockCall]]:
        """Passes within are cut at the blocks, which compute with `weights_of(block)`; the calls come in order."""

    def narrowed(self) -> AbstractContextManager[None]:
        """Within, the blocks' own weights take half the room where they lose nothing by it."""


class LiveWeights(Mapping[str, "Tensor"]):
    """Weights of a network in fp32, each taken from it when it is asked for: a table of them holds no copy."""

    def __init__(self, module: nn.Module, keys: Sequence[str]):
        self._module, self._keys = module, tuple(keys)

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._keys:
            raise KeyError(key)
        return self._module.get_parameter(key).detach().float()

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class ModuleNetwork:
    """A plain module that maps inputs to scores. `head` means nothing to it."""

    def __init__(self, module: nn.Module, keys: Sequence[str] | None = None):
        self.module = module.requires_grad_(False).eval()
        own = dict(module.named_parameters())
        self.keys = tuple(own if keys is None else keys)
        first = next(iter(own.values()))
        self.device = str(first.device)

    def weights(self) -> dict[str, Tensor]:
        own = dict(self.module.named_parameters())
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        from torch.func import functional_call

        scores: Tensor = functional_call(self.module, dict(weights), (inputs,)).float()
        return scores

    def replica(self) -> Network:
        return ModuleNetwork(sharing_copy(self.module), self.keys)


def sharing_copy(module: nn.Module) -> nn.Module:
    """A copy of the modules whose parameters and buffers are the very same tensors."""
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, shared)


def network_of(model: Any, include: Sequence[str] = ()) -> Network:
    """The network of a loaded model, or an error where it is none: an ensemble has no weights of its own.

    `include` are a recipe's patterns. A family that leaves tensors out by default (a language model's embeddings)
    takes them in where they are named.
    """
    if not hasattr(model, "network"):
        label = getattr(model, "label", type(model).__name__)
        raise RecipeError(f"{label} is not one model with weights of its own; measure and learn on its parts")
    network: Network = model.network(include)
    return network
