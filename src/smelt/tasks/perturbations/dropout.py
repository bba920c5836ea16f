"""Dropout on attention probabilities that belongs to a place: (seed of the sample, layer, head, row, column).

    out = (softmax(q k^T / sqrt(d)) * keep / (1 - rate)) v        keep is 1 with the chance 1 - rate, else 0
So a sample's answers do not depend on its neighbours in a batch, and every model drops the same places. It works where
transformers' attention interface does: a Llama inside a LLaVA, a CLIP tower. Nothing else of the model changes; it
stays in evaluation mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["attention_dropout"]

_NAME = "smelt_place_dropout"
_STEP, _HEAD = 0x9E3779B97F4A7C15 - (1 << 64), 0x632BE59BD9B4E019
_WIDE = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)), (31, 1))
_NARROW = ((16, 0x7FEB352D), (15, 0x846CA68B - (1 << 32)), (16, 1))
_ACTIVE: dict[int, _Drop] = {}
"""By the id of an attention layer, while it drops."""


@dataclass
class _Drop:
    """What the layers of one model drop in one pass."""

    rate: float
    seeds: tuple[int, ...]
    layers: dict[int, str]
    used: bool = field(default=False)

    def keep(self, layer: int, probabilities: Tensor) -> Tensor:
        """Scale what is kept of [batch, heads, rows, columns], and set the rest to 0."""
        import torch

        batch, heads, rows, columns = probabilities.shape
        if batch != len(self.seeds):
            raise ValueError(f"a batch of {batch} samples, but {len(self.seeds)} seeds; each sample has its own")
        self.used = True
        place: Any = {"dtype": torch.int64, "device": probabilities.device}
        keys = torch.tensor([_key(seed, self.layers[layer]) for seed in self.seeds], **place)
        of_head = torch.arange(1, heads + 1, **place)[:, None] * _HEAD
        of_row = torch.arange(columns - rows + 1, columns + 1, **place) * _STEP  # behind what a cache holds
        wide = _mixed(keys[:, None, None] + of_head + of_row, _WIDE, 64)[..., None]
        before, between = wide.to(torch.int32), (wide >> 32).to(torch.int32)
        bits = before + torch.arange(columns, dtype=torch.int32, device=probabilities.device)
        (first, multiplier), *others = _NARROW
        bits ^= (bits >> first) & ((1 << (32 - first)) - 1)
        bits = _mixed(bits.mul_(multiplier).bitwise_xor_(between), others, 32)
        kept = bits.bitwise_and_((1 << 24) - 1) >= round(self.rate * (1 << 24))
        return probabilities * kept / (1 - self.rate)


@contextmanager
def attention_dropout(module: torch.nn.Module, rate: float, seeds: Sequence[int]) -> Iterator[None]:
    """Drop this share of the attention probabilities of a module inside; one seed for each sample of the batch.

    A rate of 0 changes nothing. A module is used by one thread at a time. Where no attention layer could be reached
    the pass is refused: its answers would look certain only because nothing was perturbed.
    """
    if rate == 0:
        yield
        return
    configs: dict[int, Any] = {
        id(part.config): part.config
        for part in module.modules()
        if hasattr(getattr(part, "config", None), "_attn_implementation_internal")
    }
    layers = {id(part): name for name, part in module.named_modules()}
    _register()
    drop = _Drop(rate, tuple(seeds), layers)
    before = {key: config._attn_implementation_internal for key, config in configs.items()}
    try:
        for config in configs.values():
            config._attn_implementation_internal = _NAME
        _ACTIVE.update(dict.fromkeys(layers, drop))
        yield
    finally:
        for layer in layers:
            _ACTIVE.pop(layer, None)
        for key, config in configs.items():
            config._attn_implementation_internal = before[key]
    if not drop.used:
        raise RecipeError(
            f"{type(module).__name__} computes no attention through transformers' interface, so none of it could be "
            "dropped; leave the perturbation of models out (model: false)"
        )


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **words: Any
) -> tuple[Tensor, Tensor]:
    """Plain attention with the dropout of the layer's place; what transformers calls in place of its own."""
    import torch

    if words.get("softcap") is not None or words.get("s_aux") is not None:
        raise RecipeError(f"{type(module).__name__}: its attention has a softcap or sinks, which dropout does not know")
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scale = words.get("scaling")
    scores = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attention_mask is not None:
        scores = scores + attention_mask[..., : key.shape[2]]
    probabilities = torch.softmax(scores, dim=-1, dtype=torch.float32)
    probabilities = _ACTIVE[id(module)].keep(id(module), probabilities).to(query.dtype)
    return torch.matmul(probabilities, value).transpose(1, 2).contiguous(), probabilities


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, eager_mask)


def _key(seed: int, layer: str) -> int:
    digest = hashlib.blake2b(f"{seed}\0dropout\0{layer}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _mixed(x: Tensor, rounds: Sequence[tuple[int, int]], bits: int) -> Tensor:
    """Shifts (as if x had no sign) and multiplications, after which every bit depends on all; in place."""
    for shift, multiplier in rounds:
        x ^= (x >> shift) & ((1 << (bits - shift)) - 1)
        if multiplier != 1:
            x *= multiplier
    return x
