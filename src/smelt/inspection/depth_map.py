"""Where in a network two models differ: layers × kinds of tensors, as data for a heat map.

A row is a block, or a module outside the blocks, in the order in which data flows. A column is a kind of tensor inside
the blocks, by a short name: `q` for q_proj, `norm` for all norms; a bias goes with its weight. The last column is the
whole row. A model of many kinds has three columns instead: attention, mlp, other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from smelt.formats.architecture.layers import layers_in_order
from smelt.formats.architecture.layout import Layout
from smelt.inspection.tensor_changes import Sums, TensorChange

__all__ = ["DepthMap", "depth_map"]

_ALL = "all"
_MOST_KINDS = 8
"""With names and numbers they fill 80 columns."""
_NORM = re.compile(r"norm|(^|_)ln(_|\d|$)")
_ATTENTION = re.compile(r"attn|attention")
_MLP = re.compile(r"mlp|feed_forward|ffn|(^|\.)fc\d|experts?(\.|$)")


@dataclass(frozen=True)
class DepthMap:
    """Relative differences |b - a| / |a|; None where a layer has no such tensor."""

    layers: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


def depth_map(changes: Iterable[TensorChange]) -> DepthMap:
    """The map of all tensors that were compared."""
    sums = {one.name: one.sums for one in changes}
    layer_of = layers_in_order(sums)
    kinds = {key: _kind(key) for key in layer_of}
    if len(set(kinds.values()) - {_ALL}) > _MOST_KINDS:
        kinds = {key: _coarse(key) for key in layer_of}
    columns = [*dict.fromkeys(kind for kind in kinds.values() if kind != _ALL), _ALL]
    cells: dict[str, dict[str, Sums]] = {}
    for key, layer in layer_of.items():
        row = cells.setdefault(layer, {})
        for column in {kinds[key], _ALL}:
            row[column] = row.get(column, Sums()) + sums[key]
    values = (tuple(row[one].relative if one in row else None for one in columns) for row in cells.values())
    return DepthMap(tuple(_short(cells)), tuple(columns), tuple(values))


def _kind(key: str) -> str:
    """`q` of `layers.3.self_attn.q_proj.weight`; a tensor outside the blocks has none."""
    block = Layout.block(key)
    if block is None:
        return _ALL
    module = block[2].removesuffix(".weight").removesuffix(".bias")
    leaf = next((part for part in reversed(module.split(".")) if not part.isdigit()), module)
    return "norm" if _NORM.search(leaf) else leaf.removesuffix("_proj") or leaf


def _coarse(key: str) -> str:
    block = Layout.block(key)
    if block is None:
        return _ALL
    inside = block[2]
    return "attention" if _ATTENTION.search(inside) else "mlp" if _MLP.search(inside) else "other"


def _short(layers: Iterable[str]) -> list[str]:
    """Names of rows: `block 3` of model.layers.3 where there is one stack, else `vision_model 3`; `norm` of model.norm
    unless two would be called so.
    """
    names = list(layers)
    blocks = {name: name.rpartition(".") for name in names if name.rpartition(".")[2].isdigit()}
    word = _distinct({stack for stack, _, _ in blocks.values()})
    ends = [name.rpartition(".")[2] for name in names]
    return [
        (f"{word[blocks[name][0]]} {blocks[name][2]}" if name in blocks else end if ends.count(end) == 1 else name)
        for name, end in zip(names, ends, strict=True)
    ]


def _distinct(stacks: set[str]) -> Mapping[str, str]:
    """A word for each stack: `block` for a single one, else the first part of its name in which it differs."""
    parts = {stack: stack.split(".") for stack in stacks}
    common = 0
    while len(stacks) > 1 and len({tuple(one[: common + 1]) for one in parts.values()}) == 1:
        common += 1
    return {stack: "block" if len(stacks) == 1 else ".".join(one[common : common + 1]) for stack, one in parts.items()}
