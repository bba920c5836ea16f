"""A pass through a language model that is cut at its blocks, so that each can be differentiated on its own.

    forward     the blocks run without gradients, with weights that are made for the call and let go; the output of a
                block is the beginning of a new graph, which ends at the next block or at the loss
    backward    from the last block to the first: each is computed again from its inputs, with gradients, and hands the
                gradient of its inputs to what came before it

So there are weights of one block at a time, and of the graph the inputs of all blocks alone. The numbers are those of
one graph with checkpoints at the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smelt.errors import RecipeError

__all__ = ["BlockCall", "Cuttable", "WeightsOf", "cut_at_blocks"]

WeightsOf: TypeAlias = Callable[[str], Mapping[str, Tensor]]
"""The weights of a block by its name, under the names that they have within it."""


class Cuttable:
    """What a block is while passes may be cut at it. `_instead` takes its place; `_within` keeps checkpoints away."""

    _within = False
    _instead: Callable[..., Any] | None = None


@dataclass(frozen=True)
class BlockCall:
    """One call of one block: its inputs, and the beginnings of the graphs that followed."""

    block: str
    module: Any
    given: tuple[Any, ...]
    words: Mapping[str, Any]
    outputs: Sequence[Tensor]

    def back(self, weights: Mapping[str, Tensor]) -> None:
        """Compute the block again, and differentiate it by weights and inputs from the gradients of its outputs."""
        with torch.enable_grad():
            again = _tensors(_computed(self.module, weights, self.given, self.words, within=True))
        pairs = [
            (out, leaf.grad)
            for out, leaf in zip(again, self.outputs, strict=True)
            if out.requires_grad and leaf.grad is not None
        ]
        if pairs:
            torch.autograd.backward([out for out, _ in pairs], [gradient for _, gradient in pairs])


@contextmanager
def cut_at_blocks(blocks: Mapping[str, nn.Module], weights_of: WeightsOf) -> Iterator[list[BlockCall]]:
    """Passes within are cut; the list has their calls of blocks, in order."""
    calls: list[BlockCall] = []

    def instead(name: str) -> Callable[..., Any]:
        def call(module: Any, given: tuple[Any, ...], words: Mapping[str, Any]) -> Any:
            _check_inputs(name, given, words)
            with torch.no_grad():
                result = _computed(module, weights_of(name), given, words)
            result, leaves = _begun_anew(result)
            calls.append(BlockCall(name, module, given, words, leaves))
            return result

        return call

    modules: dict[str, Any] = dict(blocks)
    try:
        for name, module in modules.items():
            module._instead = instead(name)
        yield calls
    finally:
        for module in modules.values():
            module._instead = None


def _computed(
    module: Any, weights: Mapping[str, Tensor], given: tuple[Any, ...], words: Mapping[str, Any], within: bool = False
) -> Any:
    """The block itself with these weights, whatever stands in its place."""
    aside, module._instead, module._within = module._instead, None, within
    try:
        return functional_call(module, dict(weights), given, dict(words))
    finally:
        module._instead, module._within = aside, False


def _begun_anew(result: Any) -> tuple[Any, list[Tensor]]:
    """The same outputs without what they came from, and those of them that a loss can be differentiated by."""
    if isinstance(result, Tensor):
        (leaf,) = leaves = [result.detach().requires_grad_()]
        return leaf, leaves
    parts = [one.detach().requires_grad_() if _is_float(one) else one for one in result]
    return type(result)(parts), [one for one in parts if _is_float(one)]


def _tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [one for one in result if _is_float(one)]


def _is_float(one: Any) -> bool:
    return isinstance(one, Tensor) and one.is_floating_point()


def _check_inputs(block: str, given: tuple[Any, ...], words: Mapping[str, Any]) -> None:
    """Two inputs that depend on learned weights may share a graph, which can be gone through once only."""
    learned = [one for one in (*given, *words.values()) if isinstance(one, Tensor) and one.requires_grad]
    if len(learned) > 1:
        raise RecipeError(
            f"{block} has {len(learned)} inputs that depend on what is learned, so it cannot be differentiated on its "
            "own; write `step_by: model`"
        )
