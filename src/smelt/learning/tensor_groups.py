"""What is learned about, and how finely: one coefficient per model, per layer of the network, or per tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from smelt.errors import RecipeError
from smelt.files.reading import natural
from smelt.formats.architecture.layout import Layout
from smelt.models.families.causal_lm.pass_memory import is_measured
from smelt.recipe.patterns import chosen

if TYPE_CHECKING:
    from smelt.formats.source import Source
    from smelt.models.families.network import Network
    from smelt.recipe.schema import Recipe

__all__ = ["AFTER", "ALL", "BEFORE", "Level", "groups_of", "learned_keys", "masked_tensors"]

Level: TypeAlias = Literal["task", "layer", "tensor"]
"""`task` is one coefficient per model; AdaMerging's "layer-wise" is `tensor`."""

ALL, BEFORE, AFTER = "all", "before the blocks", "after the blocks"


def groups_of(keys: Sequence[str], level: Level) -> dict[str, tuple[str, ...]]:
    """The tensors that share a coefficient, by the group's name.

    A layer is a block of the network; what lies outside the blocks is one layer before or one after them. Layers are
    in the order in which data flows through them, tensors in the order of the model.
    """
    if level == "task":
        return {ALL: tuple(keys)}
    if level == "tensor":
        return {key: (key,) for key in keys}
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(_layer(key), []).append(key)
    order = {BEFORE: 0, AFTER: 2}
    return {name: tuple(found[name]) for name in sorted(found, key=lambda name: (order.get(name, 1), natural(name)))}


def _layer(key: str) -> str:
    block = Layout.block(key)
    if block is not None:
        return f"{block[0]}.{block[1]}" if block[0] else str(block[1])
    return BEFORE if Layout.before_blocks(key) else AFTER


def learned_keys(network: Network, base: Source, recipe: Recipe) -> tuple[str, ...]:
    """The tensors that are learned about: those of the network that the base holds, by `include` and `skip`."""
    missing = [key for key in network.keys if key not in base.tensors and key not in base.tied]
    if missing:
        raise RecipeError(f"the network has {missing[0]!r}, which {base.label} lacks ({len(missing)} such tensors)")
    keys = tuple(key for key in network.keys if chosen(key, recipe.include, recipe.skip))
    if not keys:
        raise RecipeError("nothing is left to learn about: include and skip leave no tensor of the network")
    return keys


def masked_tensors(recipe: Recipe, base: Source) -> list[str]:
    """The tensors of a language model that will be learned about, by the names in its header: before it is loaded."""
    named = [key for key in base.tensors if recipe.include or is_measured(key)]
    return [key for key in named if chosen(key, recipe.include, recipe.skip)]
