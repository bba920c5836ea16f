"""Experts of the models brought into the order of the reference's: `align_experts` of a recipe.

Two runs may hold the same experts in another order, since a layer computes the same whatever it is. Tensor by tensor
they would merge with strangers. Here every layer of every model is matched with that of the reference (the base, else
the first model): the assignment of least cost, where the cost of a pair is how far its matrices and the router's rows
are apart,

    cost[i, j] = sum over kinds k of |a_ik - b_jk|^2 / sum over i of |a_ik|^2

The numbers of a layer are read in runs: of every expert of both models the same few, so that memory is bounded by
`_AT_ONCE` whatever the size of an expert. Distances are summed in float64. A model that is in order already, or no
better in another one, stays as it is.

A router that chooses groups first (DeepSeek's `n_group`, `topk_group`) computes the same only if whole groups change
places, and experts within them: then the best such order is found, group by group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smelt.engine.pool import BASE, ModelPool
from smelt.errors import IncompatibleModels, MissingExtra, RecipeError
from smelt.formats.architecture.expert_layers import ExpertLayer, expert_layers
from smelt.formats.folder_files import read_config
from smelt.formats.source import Source
from smelt.formats.views.permuted_experts import permutation_fault, with_permuted_experts
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]

__all__ = ["align_experts", "best_order"]

_AT_ONCE = 1 << 22
"""Numbers of one model that are compared at once."""
_NOTHING = 1e-12
"""Of the largest cost: what rounding makes of experts that are equal."""


def align_experts(recipe: Recipe, pool: ModelPool, *, headers_only: bool = False) -> tuple[ModelPool, list[str]]:
    """The pool with every model's experts in the reference's order, and what moved; `headers_only`, only the checks."""
    if recipe.statistics or recipe.slices or any(part.slices for part in recipe.parts):
        raise RecipeError(
            "align_experts: brings whole models into one order, and neither statistics that were measured before nor "
            "layer slices follow; merge without them"
        )
    reference = pool.reference
    layers = expert_layers(reference.tensors)
    if not layers:
        raise RecipeError(f"align_experts: {reference.label} has no layer with experts")
    groups = {name: _groups(source) for name, source in pool.all.items()}
    faults = [f"align_experts: {fault}" for layer in layers if (fault := permutation_fault(layer, reference.tensors))]
    if faults:
        raise IncompatibleModels(faults[:1])
    if headers_only:
        return pool, [f"experts are matched with {_whose(pool)} before the merge; which of them move is not known yet"]
    moved, notes = {}, []
    for name, source in pool.models.items():
        if source is reference:
            continue
        others = {layer.name: layer for layer in expert_layers(source.tensors)}
        shared = [layer for layer in layers if _alike(layer, others.get(layer.name), reference, source)]
        costs = {layer.name: _costs(layer, reference, source) for layer in shared}
        orders = {key: best_order(cost, groups[name]) for key, cost in costs.items()}
        changed = {key: order for key, order in orders.items() if order != sorted(order)}
        notes.append(f"the experts of {name} are matched with {_whose(pool)}: {_moved(orders)}")
        if changed:
            moved[name] = with_permuted_experts(source, list(others.values()), changed)
    models = {name: moved.get(name, source) for name, source in pool.models.items()}
    return replace(pool, models=models), notes


def best_order(costs: Costs, groups: int = 1) -> list[int]:
    """For each expert of the reference (a row) which of the model's (a column) takes its place, at the least sum.

    `groups` stay together. Where no order is better than the one that is there, that stays.
    """
    import numpy as np

    size = len(costs) // groups
    found = np.zeros((groups, groups), float)
    inside: dict[tuple[int, int], list[int]] = {}
    for ours in range(groups):
        for theirs in range(groups):
            part = costs[ours * size : (ours + 1) * size, theirs * size : (theirs + 1) * size]
            inside[ours, theirs] = [theirs * size + column for column in _assigned(part)]
            found[ours, theirs] = sum(
                part[row, column - theirs * size] for row, column in enumerate(inside[ours, theirs])
            )
    order = [column for ours, theirs in enumerate(_assigned(found)) for column in inside[ours, theirs]]
    kept, best = float(np.trace(costs)), float(sum(costs[row, column] for row, column in enumerate(order)))
    better = kept - best > _NOTHING * float(np.abs(costs).max())
    return order if better else list(range(len(costs)))


def _assigned(costs: Costs) -> list[int]:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise MissingExtra("aligning experts needs SciPy: pip install 'smelt[experts]'") from None
    return [int(column) for column in linear_sum_assignment(costs)[1]]


def _groups(source: Source) -> int:
    """How many groups of experts a router chooses among before it chooses experts; 1 where it does not."""
    config: Mapping[str, Any] = read_config(source.folder) or {}
    inner = config.get("text_config")
    config = inner if isinstance(inner, Mapping) and "n_group" in inner else config
    groups, chosen = config.get("n_group"), config.get("topk_group")
    if type(groups) is not int or groups < 2 or chosen == groups or config.get("topk_method") == "greedy":
        return 1
    for layer in expert_layers(source.tensors):
        if layer.count % groups:
            raise IncompatibleModels(
                [f"align_experts: {source.label} has {layer.count} experts in {layer.name}, not {groups} equal groups"]
            )
    return groups


def _alike(layer: ExpertLayer, other: ExpertLayer | None, reference: Source, source: Source) -> bool:
    """Whether a model has this layer, with the same tensors."""
    if other is None or other.count != layer.count:
        return False
    ours, theirs = reference.tensors, source.tensors
    return all(name in theirs and theirs[name].shape == ours[name].shape for name in (*layer.routers, *layer.experts))


def _costs(layer: ExpertLayer, reference: Source, source: Source) -> Costs:
    """How far every expert of one model is from every one of the other, all kinds of tensors counting alike."""
    import numpy as np

    total = np.zeros((layer.count, layer.count))
    for runs in _kinds(layer, reference):
        cost, size = np.zeros_like(total), 0.0
        width = max(1, _AT_ONCE // layer.count)
        length = runs[0][2]
        for start in range(0, length, width):
            stop = min(start + width, length)
            ours, theirs = (_read(one, runs, start, stop) for one in (reference, source))
            center = ours.mean(axis=0)  # experts that began as one are alike: what they share only costs digits
            size += float(np.square(ours).sum())
            ours, theirs = ours - center, theirs - center
            cost += np.square(ours).sum(axis=1)[:, None] + np.square(theirs).sum(axis=1)[None, :] - 2 * ours @ theirs.T
        total += cost / (size or 1.0)
    return total


_Run = tuple[str, int, int]
"""A tensor, the first element that belongs to an expert, and how many do."""


def _kinds(layer: ExpertLayer, source: Source) -> list[list[_Run]]:
    """For each kind of tensor, what every expert has of it."""
    kinds = []
    for rest in layer.apart.get(0, {}):
        names = [layer.apart[number][rest] for number in range(layer.count)]
        kinds.append([(name, 0, source.tensors[name].count) for name in names])
    for name in (*layer.routers, *layer.stacked):
        size = source.tensors[name].count // layer.count
        kinds.append([(name, number * size, size) for number in range(layer.count)])
    return kinds


def _read(source: Source, runs: Sequence[_Run], start: int, stop: int) -> Costs:
    """The same few numbers of every expert, [experts, numbers]."""
    import torch

    block = torch.empty(len(runs), stop - start)
    for row, (name, first, _) in zip(block, runs, strict=True):
        source.read(name, first + start, row)
    return block.double().numpy()


def _whose(pool: ModelPool) -> str:
    return "the base's" if pool.reference_name == BASE else f"those of {pool.reference_name}"


def _moved(orders: Mapping[str, Sequence[int]]) -> str:
    """How many experts of each layer moved."""
    counts = {key: sum(new != old for new, old in enumerate(order)) for key, order in orders.items()}
    moved = ", ".join(f"{count} of {len(orders[key])} in {key}" for key, count in counts.items() if count)
    return f"moved {moved}" if moved else "all are in place"
