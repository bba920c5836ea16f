"""A network with routed MLPs: a plain one and its experts in, the same module after surgery out.

Works on any `Network`: its module, the keys that are merged, and a pattern of the modules that are routed. What it
computes is what is saved: merged weights are rounded to the output's format, and changes to theirs, before anything is
learned on top of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smelt.errors import RecipeError
from smelt.formats.source import MemorySource, Source
from smelt.mixing.expert_deltas import check_models, routed_changes, task_arithmetic
from smelt.mixing.routed_module import find_routed, install, linear_keys, width_of
from smelt.mixing.router import Router
from smelt.mixing.wemoe import WeMoE
from smelt.models.families.network import Network

__all__ = ["MixedNetwork", "mixed_network"]


@dataclass(frozen=True)
class MixedNetwork:
    """A network whose module was operated on. Not a `Network`: it is not one model with weights to replace."""

    network: Network
    experts: tuple[str, ...]
    routed: str
    """The pattern of the modules that are routed."""
    routers: Mapping[str, Router]
    """By the name of their MLP, in the order of the blocks."""
    deltas: Mapping[str, Tensor]
    """The experts' changes of everything routed, stacked, by key."""
    state: Mapping[str, Tensor]
    """The module's own tensors under the names that they had before."""

    def logits(self, inputs: Any, head: Tensor | None) -> Tensor:
        """Scores [n, classes], differentiable in the routers' parameters."""
        return self.network.logits({}, inputs, head)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """What is learned: everything of all routers."""
        return {
            f"{mlp}.{name}": tensor
            for mlp, router in self.routers.items()
            for name, tensor in router.named_parameters()
        }


def mixed_network(
    network: Network,
    models: Mapping[str, Source | Mapping[str, Tensor] | nn.Module],
    *,
    routed: str,
    settings: WeMoE | None = None,
    seed: int = 0,
    keys: Sequence[str] | None = None,
    formats: Mapping[str, torch.dtype] | None = None,
) -> MixedNetwork:
    """Turn the network's own module into a mixture; its weights are the base.

    `models` are the experts by name: Sources, state dicts or modules. `routed` is a pattern of module names; `keys`
    are the tensors that the experts may change (all that the network merges by default), the others stay the base's.
    `formats` are the number formats that merged tensors are rounded to, fp32 where nothing is said.
    """
    settings = settings or WeMoE()
    sources = {name: _source(name, model) for name, model in models.items()}
    if not sources:
        raise RecipeError("there is nothing to mix: no models were given")
    merged = tuple(network.keys if keys is None else keys)
    mlps = find_routed(network.module, routed)
    apart = linear_keys(mlps)
    fixed = [key for key in apart if key not in merged]
    if fixed:
        raise RecipeError(
            f"{fixed[0]!r} is routed, but it is not among the tensors that are merged; route other modules"
        )
    base = {key: tensor.cpu() for key, tensor in network.weights().items()}
    check_models(base, sources, merged)
    state = {name: tensor.detach() for name, tensor in network.module.state_dict().items()}
    dtype = getattr(torch, settings.delta_dtype)
    deltas = {key: routed_changes(base[key], sources, key, density=settings.density, dtype=dtype) for key in apart}
    for key in merged:
        plain = base[key] if key in deltas else task_arithmetic(base[key], sources, key, settings.scale)
        state[key].copy_(plain.to((formats or {}).get(key, torch.float32)))
    routers = {
        name: Router.begin(width_of(mlp), len(sources), scale=settings.scale, seed=seed, place=name, top=settings.top)
        for name, mlp in mlps.items()
    }
    placed = install(network.module, mlps, deltas, routers)
    return MixedNetwork(network, tuple(sources), routed, placed, deltas, state)


def _source(name: str, model: Source | Mapping[str, Tensor] | nn.Module) -> Source:
    if isinstance(model, Source):
        return model
    return MemorySource(name, model.state_dict() if isinstance(model, nn.Module) else model)
