"""The experts' changes, read from their Sources: stacked for what is routed, added up for the rest.

routed   D_i = expert_i - base, one stacked tensor [experts, ...] for each key, pruned and rounded if asked for
rest     base + scale Σ_i (expert_i - base)                                        (task arithmetic)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from smelt.errors import IncompatibleModels, NumericalError
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source
from smelt.ops.order import share

__all__ = ["check_models", "routed_changes", "task_arithmetic"]


def check_models(weights: Mapping[str, Tensor], models: Mapping[str, Source], keys: Iterable[str]) -> None:
    """Refuse models that lack one of the keys or have it in another shape or as integers, with every reason."""
    faults: list[str] = []
    for name, source in models.items():
        held = {*source.tensors, *source.tied}
        infos = {key: source.tensors[source.tied.get(key, key)] for key in keys if key in held}
        shapes = {key: tuple(weights[key].shape) for key in infos}
        faults += _first(f"{key!r} of the base is missing from {name}" for key in keys if key not in held)
        faults += _first(
            f"{key!r} is {shapes[key]} in the base but {info.shape} in {name}"
            for key, info in infos.items()
            if info.shape != shapes[key]
        )
        faults += _first(
            f"{key!r} is {info.dtype} in {name}, not a float"
            for key, info in infos.items()
            if info.dtype not in dtypes.FLOATS
        )
    if faults:
        raise IncompatibleModels(faults, cannot="be mixed")


def _first(faults: Iterable[str]) -> list[str]:
    """One fault of a kind, and how many more there are."""
    found = list(faults)
    return [found[0] + (f" (and {len(found) - 1} more tensors)" if found[1:] else "")] if found else []


def routed_changes(
    base: Tensor,
    models: Mapping[str, Source],
    key: str,
    *,
    density: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The changes of one tensor, stacked in the order of the models.

    With a `density` below 1 each expert keeps that share of the tensor's entries, those of largest magnitude, and at
    least one; nothing is rescaled, since the routers learn how much they want.
    """
    stack = torch.empty(len(models), *base.shape, dtype=dtype)
    for row, source in zip(stack, models.values(), strict=True):
        row.copy_(_pruned(_change(base, source, key), density))
    return stack


def task_arithmetic(base: Tensor, models: Mapping[str, Source], key: str, scale: float) -> Tensor:
    """One tensor of everything that is not routed."""
    total = torch.zeros_like(base)
    for source in models.values():
        total += _change(base, source, key)
    return base + scale * total


def _change(base: Tensor, source: Source, key: str) -> Tensor:
    key = source.tied.get(key, key)
    flat = torch.empty(base.numel(), dtype=torch.float32)
    source.read(key, 0, flat)
    change = flat.view(base.shape).sub_(base)
    if not bool(change.isfinite().all()):
        raise NumericalError(f"{key!r} of {source.label} holds NaN or infinity; its weights are not sound")
    return change


def _pruned(change: Tensor, density: float) -> Tensor:
    keep = max(1, share(change.numel(), density))
    if keep >= change.numel():
        return change
    flat = change.flatten()
    places = flat.abs().topk(keep).indices
    return torch.zeros_like(flat).scatter_(0, places, flat[places]).view(change.shape)
