"""The module inside of what trainers put around it, and whether its parameters are whole on this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import torch

__all__ = ["check_whole", "unwrapped"]

_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Without data parallelism and torch.compile around it: there, every process has all of the parameters."""
    while type(model).__name__ in _WRAPPERS:
        model = getattr(model, _WRAPPERS[type(model).__name__])
    return model


def check_whole(model: torch.nn.Module) -> None:
    """Refuse parameters of which each process has a part only."""
    for name, parameter in model.named_parameters():
        kind = type(parameter.data).__name__
        if hasattr(parameter, "ds_id") or kind == "DTensor" or type(parameter).__name__ == "FlatParameter":
            raise RecipeError(
                f"{name!r} lies in parts over several processes (FSDP or ZeRO-3), which no running average is kept of; "
                "save checkpoints and average these: smelt average RUN"
            )
