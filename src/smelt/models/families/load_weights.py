"""A module without numbers, filled tensor by tensor from any Source: never two copies of a model lie in memory.

Tied weights stay one tensor. Every reason why a model does not fit its module is named at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.views.experts import in_module_layout

if TYPE_CHECKING:
    import torch
    from torch import nn

    from smelt.models.families.model_input import ModelInput

__all__ = ["WeightHashes", "load_weights"]

_RECOMPUTED = (".inv_freq", ".original_inv_freq", ".masked_bias", ".attn.bias", ".attention.bias", ".position_ids")
"""Ends of names that old checkpoints carry and that models compute for themselves."""


@dataclass(frozen=True)
class WeightHashes:
    """Hashes over the numbers, in float32, that a module was filled with: all of them, and those of some parts."""

    hash: str
    parts: Mapping[str, str]


def load_weights(
    module: nn.Module,
    given: ModelInput,
    device: str,
    dtype: torch.dtype,
    *,
    parts: Sequence[str] = (),
    common_name: Callable[[str], str] = str,
) -> WeightHashes:
    """Read every tensor into its place, one after the other.

    `parts` are beginnings of the module's names that get a hash of their own. `common_name` maps a stored name of any
    layout to the module's.
    """
    from torch import nn

    given = _in_layout_of(module, given)
    groups = _groups(module)
    places = _places(groups, module, given, common_name)
    total, some = hashlib.sha256(), {part: hashlib.sha256() for part in parts}
    for first in sorted(groups):
        tensor = given.read(places[first])
        for digest in (total, *(own for part, own in some.items() if first.startswith(part))):
            digest.update(f"{first}\0{tuple(tensor.shape)}\0".encode())
            digest.update(tensor.contiguous().numpy().data)
        if tensor.is_floating_point():
            tensor = tensor.to(device, dtype)
        one = nn.Parameter(tensor, requires_grad=False)
        for name in groups[first]:
            owner, _, leaf = name.rpartition(".")
            slots = module.get_submodule(owner)
            if leaf in slots._parameters:
                slots._parameters[leaf] = one
            else:
                slots._buffers[leaf] = tensor.to(device)
    return WeightHashes(total.hexdigest(), {part: own.hexdigest() for part, own in some.items()})


def _in_layout_of(module: nn.Module, given: ModelInput) -> ModelInput:
    """The model with its experts as the module holds them: a layer's in one tensor, or one by one."""
    if given.source is None:
        return given
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    config = getattr(module, "config", None)
    words = config.to_dict() if hasattr(config, "to_dict") else given.config  # type: ignore[union-attr]
    return replace(given, source=in_module_layout(given.source, wanted, words))


def _groups(module: nn.Module) -> dict[str, tuple[str, ...]]:
    """The first name of every tensor of the module -> all its names: tied weights have several."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return {some[0]: tuple(some) for some in names.values()}


def _places(
    groups: Mapping[str, tuple[str, ...]], module: nn.Module, given: ModelInput, common_name: Callable[[str], str]
) -> dict[str, str]:
    """The name in the Source of each tensor of the module, or every reason why there is none."""
    wanted, found, faults = module.state_dict(), {}, []
    there = {common_name(name): name for name in given.names}
    tied = given.source.tied if given.source is not None else {}
    for first, names in groups.items():
        held = [there[common_name(name)] for name in names if common_name(name) in there]
        if not held:
            faults.append(f"{first!r} is missing")
            continue
        info, shape = given.info(held[0]), tuple(wanted[first].shape)
        if info.shape != shape:
            faults.append(f"{held[0]!r} is {info.shape}, but its config says {shape}")
        elif (info.dtype in dtypes.FLOATS) != wanted[first].is_floating_point():
            faults.append(f"{held[0]!r} is {info.dtype}")
        elif len({tied.get(name, name) for name in held}) > 1 and not _equal(given, held):
            faults.append(
                f"{' and '.join(map(repr, held))} differ, but config.json ties them; "
                "write `tie_word_embeddings: false` there if they are meant to"
            )
        found[first] = held[0]
    known = {common_name(name) for names in groups.values() for name in names}
    faults += [
        f"{name!r} belongs to no {type(module).__name__}"
        for name in sorted(own for short, own in there.items() if short not in known)
        if not name.endswith(_RECOMPUTED)
    ]
    if faults:
        more = f"\n  - … and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise RecipeError(
            f"{given.label} cannot be loaded as a {type(module).__name__}:"
            + "".join(f"\n  - {fault}" for fault in faults[:8])
            + more
        )
    return found


def _equal(given: ModelInput, names: Sequence[str]) -> bool:
    import torch

    first = given.read(names[0])
    return all(torch.equal(first, given.read(name)) for name in names[1:])
