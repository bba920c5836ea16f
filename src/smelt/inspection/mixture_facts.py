"""What headers and config tell of a mixture of experts: how many there are, how many a token uses, how it chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.formats.architecture.expert_layers import expert_layers
from smelt.formats.source import TensorInfo

__all__ = ["MixtureFacts", "mixture_of"]

_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts", "moe_k", "moe_topk")
_SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")


@dataclass(frozen=True)
class MixtureFacts:
    """The experts of a model."""

    layers: int
    """How many layers have experts."""
    experts: tuple[int, ...]
    """How many of them are in one; several numbers where layers differ."""
    per_token: int | None
    """How many a token is routed to, as the config says."""
    shared: int
    """How many every token goes through."""
    parameters: int
    """Of all experts that tokens are routed to."""
    routers: int
    """Tensors that choose among the experts."""

    def __str__(self) -> str:
        counts = " or ".join(f"{count:,}" for count in self.experts)
        used = f", {self.per_token} per token" if self.per_token else ""
        shared = f", {self.shared} shared" if self.shared else ""
        where = f"each of {self.layers} layers" if self.layers > 1 else "one layer"
        return f"{counts} in {where}{used}{shared}; {self.parameters:,} parameters, {self.routers} tensors of routers"


def mixture_of(tensors: Mapping[str, TensorInfo], config: Mapping[str, Any]) -> MixtureFacts | None:
    """None for a model without experts."""
    layers = expert_layers(tensors)
    if not layers:
        return None
    inner = config.get("text_config")
    sections: Sequence[Any] = (config, inner, config.get("ffn_config"))
    return MixtureFacts(
        len(layers),
        tuple(sorted({one.count for one in layers})),
        _said(sections, _PER_TOKEN),
        (_said(sections, _SHARED) or 1) if any(one.shared for one in layers) else 0,
        sum(tensors[name].count for one in layers for name in one.experts),
        sum(len(one.routers) for one in layers),
    )


def _said(sections: Sequence[Any], words: Sequence[str]) -> int | None:
    """The first of some words that a config says a number for."""
    found = (part[word] for part in sections if isinstance(part, Mapping) for word in words if word in part)
    return next((value for value in found if type(value) is int), None)
