"""Experts: networks of one architecture side by side, merged by a vector of coefficients.

    merged = sum_i beta_i theta_i                one product beta @ [theta_1; ..; theta_n] per tensor

Tensors that are the same in all experts are not merged: a convex combination of equals is the same tensor. What the
networks do not merge (a CLIP's projection and text tower) has to be the same in all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from smelt.errors import IncompatibleModels, RecipeError
from smelt.models.families.network import Encoder, Network

if TYPE_CHECKING:
    from torch import nn

__all__ = ["EncodingNetwork", "Experts"]

_BLOCK = 1 << 20
"""Coordinates of all experts that are in float64 at once."""
_SHOWN = 5
_TOLERANCE = 1e-4
"""How far the sum of a vector of coefficients may be from one: rounding, not another vector."""


class EncodingNetwork(Network, Encoder, Protocol):
    """A network that encodes: what an expert is."""


class Experts:
    """At least two networks that differ in the numbers of `network.keys` only."""

    def __init__(self, networks: Mapping[str, EncodingNetwork]):
        if len(networks) < 2:
            raise RecipeError(f"collaboration needs at least two experts, got {len(networks)} ({', '.join(networks)})")
        mute = [name for name, network in networks.items() if not isinstance(network, Encoder)]
        if mute:
            raise RecipeError(f"{', '.join(mute)}: cannot be experts, because they give no features (no `encode`)")
        self.names: tuple[str, ...] = tuple(networks)
        self.networks: dict[str, EncodingNetwork] = dict(networks)
        self.network: EncodingNetwork = networks[self.names[0]]
        """The one that computes with merged weights."""
        self._weights = {name: network.weights() for name, network in networks.items()}
        faults = [*_faults_of_shapes(self._weights), *_faults_of_places(self.networks)]
        faults = faults or list(_faults_of_fixed_parts(self.networks))
        if faults:
            more = [f"… and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
            raise IncompatibleModels(faults[:_SHOWN] + more, "collaborate")
        self._room: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.network.keys

    @property
    def shared(self) -> dict[str, Tensor]:
        """The tensors that are the same in all experts."""
        first = self._weights[self.names[0]]
        return {key: first[key] for key in self.keys if key not in self._stacks}

    @property
    def bytes_of_one(self) -> int:
        """What the merged tensors of one vector of coefficients take."""
        return sum(stack.shape[1] * stack.element_size() for stack in self._stacks.values())

    @cached_property
    def hashes(self) -> dict[str, str]:
        """For each expert, over all that its features follow from."""
        return {name: _hash(network.module, self._weights[name]) for name, network in self.networks.items()}

    def stack(self, key: str) -> Tensor:
        """The tensor of every expert, [n, ...]."""
        first = self._weights[self.names[0]][key]
        if key in self._stacks:
            return self._stacks[key].view(len(self), *first.shape)
        return first.expand(len(self), *first.shape)

    def merge(self, beta: Tensor | Sequence[float]) -> dict[str, Tensor]:
        """The weights sum_i beta_i theta_i. A one-hot vector gives that expert's own numbers, bit for bit."""
        (row,) = self.check(torch.as_tensor(beta))
        first = self._weights[self.names[0]]
        return {
            key: (row @ self._stacks[key]).view(first[key].shape) if key in self._stacks else first[key]
            for key in self.keys
        }

    def merge_each(self, betas: Tensor) -> dict[str, Tensor]:
        """The merged weights [m, ...] of every row of `betas` [m, n]; only keys that differ.

        They lie in memory that the next call writes over: pages that are new cost more than the arithmetic.
        """
        betas = self.check(betas)
        first, merged = self._weights[self.names[0]], {}
        for key, stack in self._stacks.items():
            room = self._room.get(key)
            if room is None or len(room) < len(betas):
                room = self._room[key] = stack.new_empty(len(betas), stack.shape[1])
            torch.mm(betas, stack, out=room[: len(betas)])
            merged[key] = room[: len(betas)].view(len(betas), *first[key].shape)
        return merged

    def check(self, beta: Tensor) -> Tensor:
        """Coefficients as rows [m, n] of the simplex, or an error."""
        rows = beta.detach().to(self.network.device, torch.float32)
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != len(self):
            raise RecipeError(
                f"a CoopVec has a number for each of {len(self)} experts ({', '.join(self.names)}), "
                f"but the coefficients are {tuple(beta.shape)}"
            )
        if not bool(((rows.sum(dim=1) - 1).abs() < _TOLERANCE).all()) or not bool((rows >= 0).all()):
            raise RecipeError("a CoopVec is not negative and sums to one; these coefficients are not on the simplex")
        return rows

    def offsets(self) -> Tensor:
        """s_i: the sum over all coordinates of theta_i - mean_j theta_j, in float64; parameters only, no buffers."""
        sums = torch.zeros(len(self), dtype=torch.float64)
        for stack in self._parameters():
            sums += stack.sum(dim=1, dtype=torch.float64).cpu()
        return sums - sums.mean()

    def gram(self) -> Tensor:
        """G_ij = <eps_i, eps_j> / trace with eps_i = theta_i - mean_j theta_j; zeros where all experts are equal."""
        total = torch.zeros(len(self), len(self), dtype=torch.float64)
        for stack in self._parameters():
            for block in torch.split(stack, _BLOCK, dim=1):
                wide = block.double()
                wide -= wide.mean(dim=0)
                total += (wide @ wide.T).cpu()
        trace = total.trace()
        return total / trace if trace > 0 else torch.zeros_like(total)

    @cached_property
    def _stacks(self) -> dict[str, Tensor]:
        """[n, size] of every key whose numbers differ."""
        first, *others = self._weights.values()
        return {
            key: torch.stack([first[key].reshape(-1), *(other[key].reshape(-1) for other in others)])
            for key in self.keys
            if not all(torch.equal(first[key], other[key]) for other in others)
        }

    def _parameters(self) -> list[Tensor]:
        own = {name for name, _ in self.network.module.named_parameters()}
        return [stack for key, stack in self._stacks.items() if key in own]


def _faults_of_shapes(weights: Mapping[str, Mapping[str, Tensor]]) -> list[str]:
    (reference, first), *others = weights.items()
    faults = []
    for name, own in others:
        faults += [f"{key!r} of {reference} is missing from {name}" for key in first if key not in own]
        faults += [f"{key!r} of {name} is missing from {reference}" for key in own if key not in first]
        faults += [
            f"{key!r} is {tuple(first[key].shape)} in {reference} but {tuple(own[key].shape)} in {name}"
            for key in first
            if key in own and own[key].shape != first[key].shape
        ]
    return faults


def _faults_of_places(networks: Mapping[str, EncodingNetwork]) -> list[str]:
    places = {name: network.device for name, network in networks.items()}
    if len(set(places.values())) == 1:
        return []
    return ["they are on different devices: " + ", ".join(f"{name} on {place}" for name, place in places.items())]


def _faults_of_fixed_parts(networks: Mapping[str, EncodingNetwork]) -> list[str]:
    (reference, first), *others = ((name, _fixed(network)) for name, network in networks.items())
    return [
        f"{key!r} is not merged, but differs between {reference} and {name}; load all experts with the same text_from"
        for name, own in others
        for key in sorted({*first, *own})
        if key not in first or key not in own or not torch.equal(first[key], own[key])
    ]


def _fixed(network: EncodingNetwork) -> dict[str, Tensor]:
    """What is not merged. Integer buffers, which are counters, mean nothing to a prediction."""
    merged = set(network.keys)
    state = network.module.state_dict()
    return {key: tensor for key, tensor in state.items() if key not in merged and tensor.is_floating_point()}


def _hash(module: nn.Module, weights: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256(f"{module}\0{_config(module)}\0".encode())
    for name, tensor in sorted((module.state_dict() | dict(weights)).items()):
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _config(module: nn.Module) -> str:
    """What the printed modules do not show: numbers of heads, activations. Where it was loaded from does not count."""
    config: Any = getattr(module, "config", None)
    words = config.to_dict() if hasattr(config, "to_dict") else {}
    kept = {key: value for key, value in words.items() if key not in ("_name_or_path", "transformers_version")}
    return json.dumps(kept, sort_keys=True, default=str)
