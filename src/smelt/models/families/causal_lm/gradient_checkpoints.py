"""Blocks that keep their inputs alone: what happens inside is computed again when gradients are asked for.

    memory: one block's activations and every block's inputs          price: a second forward pass

transformers' own gradient checkpointing works in training mode only (dropout!), and computes again with the module's
own weights; here a block computes again with the weights that it was called with, which may be any (functional_call).
A block changes its class, not its `forward`: so copies of the module are as good as the module.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

__all__ = ["with_checkpoints"]


class _Checkpointed:
    """Stands before the class of a block."""

    _within = False

    def forward(self: Any, *given: Any, **words: Any) -> Any:
        if self._within or not torch.is_grad_enabled():
            return super().forward(*given, **words)  # type: ignore[misc]
        weights = dict(self.named_parameters(remove_duplicate=False))

        def inside(*given: Any) -> Any:
            self._within = True
            try:
                return functional_call(self, weights, given, words)
            finally:
                self._within = False

        return checkpoint(inside, *given, use_reentrant=False, preserve_rng_state=False)


_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}


def with_checkpoints(module: nn.Module) -> nn.Module:
    """Change a model in place: its blocks are checkpointed wherever gradients flow."""
    for block in _blocks(module):
        kind = type(block)
        if not issubclass(kind, _Checkpointed):
            if kind not in _CLASSES:
                _CLASSES[kind] = type(kind.__name__, (_Checkpointed, kind), {"__module__": kind.__module__})
            block.__class__ = _CLASSES[kind]
    return module


def _blocks(module: nn.Module) -> list[nn.Module]:
    """The blocks of a model: the modules of its longest ModuleList that is in no other."""
    lists = [(name, list(one)) for name, one in module.named_modules() if isinstance(one, nn.ModuleList)]
    outer = [blocks for name, blocks in lists if not any(name.startswith(f"{other}.") for other, _ in lists)]
    return max(outer, key=len, default=[])
