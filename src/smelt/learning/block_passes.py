"""The loss of a merged model, differentiated block by block: for models of which little more than one copy fits.

    forward     every part of the batch goes through the network; each block's weights are merged for the call
    backward    from the last block to the first: all parts of the batch, then the block's gradients are whole, are
                given to the optimiser, and are let go

The weights are merged twice a step for every part, and nothing is ever there for the whole model but what the merge
itself holds and the inputs of the blocks. Gives the numbers that `MergedObjective` gives with one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.learning.differentiable_merge import Merge
from smelt.learning.parallel_passes import Passes, hand_over, losses_of
from smelt.models.families.network import Blockwise
from smelt.optimise.losses import LOSSES, Loss

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.causal_lm.block_calls import BlockCall
    from smelt.tasks.examples import ExampleBatch

__all__ = ["BLOCK_TOKENS", "BlockwiseObjective", "blockwise"]

BLOCK_TOKENS = 4096
"""Tokens of texts that go through at once: half of what a GPU takes otherwise, for half the scores."""


def blockwise(network: object) -> Blockwise:
    """The network as one of blocks, or an error."""
    if not isinstance(network, Blockwise) or not network.blocks:
        raise RecipeError(
            "`step_by: block` is for language models whose blocks have weights of their own, and this network is none; "
            "write `step_by: model`"
        )
    return network


class BlockwiseObjective:
    """As `MergedObjective`; its gradients come block by block, and what was given may change at once."""

    def __init__(self, merge: Merge, passes: Passes, loss: Loss = "entropy"):
        self._merge, self._passes, self._loss = merge, passes, loss
        self._network = blockwise(passes.network)
        self.parameters = dict(merge.parameters)
        self.words = {"loss": loss, **getattr(merge, "words", {})}
        self._learned = frozenset(merge.keys)
        self._blocks = dict(self._network.blocks)
        inside = {key for keys in self._blocks.values() for key in keys}
        self._outside = [key for key in merge.keys if key not in inside]

    def grouped_gradients(
        self, batches: Mapping[str, ExampleBatch]
    ) -> tuple[Iterator[Mapping[str, Tensor]], Mapping[str, float]]:
        import torch

        if self._passes.network.device.split(":")[0] == "cpu":
            torch.set_num_threads(self._passes.threads)
        outside, sums = self._leaves(self._outside)
        losses = dict.fromkeys(batches, 0.0)
        kept = []
        for part in self._passes.parts(batches, tokens=BLOCK_TOKENS):
            with self._network.cut(self._weights) as calls:
                by_task = losses_of(self._passes.network, outside, part, LOSSES[self._loss])
                torch.stack([value for _, value in by_task]).sum().backward()  # type: ignore[no-untyped-call]
            for task, value in by_task:
                losses[task] += float(value.detach())
            self._check(calls)
            kept.append(calls)
        return self._back(kept, sums), losses

    def _back(self, kept: list[list[BlockCall]], outside: dict[str, Tensor]) -> Iterator[Mapping[str, Tensor]]:
        for block in reversed(self._blocks):
            sums = self._differentiated(block, [calls.pop() for calls in kept])
            self._settle(sums)
            yield sums
            del sums
        self._settle(outside)
        yield outside

    def _differentiated(self, block: str, calls: list[BlockCall]) -> dict[str, Tensor]:
        """The gradients of one block's parameters over all parts of the batch."""
        leaves, sums = self._leaves([key for key in self._blocks[block] if key in self._learned])
        fixed = self._weights(block, [key for key in self._blocks[block] if key not in self._learned])
        weights = {**fixed, **{key.removeprefix(f"{block}."): leaf for key, leaf in leaves.items()}}
        for place, call in enumerate(calls):
            call.back(weights)
            calls[place] = None  # type: ignore[call-overload]  # its inputs are let go
        return sums

    def _leaves(self, keys: list[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Merged weights whose gradients are added up as soon as they are known, and the sums."""
        import torch

        with torch.no_grad():
            leaves = {key: self._merge.weight(key).detach() for key in keys}
            sums = {key: torch.zeros_like(leaf) for key, leaf in leaves.items()}
        for leaf in leaves.values():
            leaf.requires_grad_()
        hand_over(leaves, self._merge.pull, sums)
        return leaves, sums

    def _weights(self, block: str, keys: list[str] | None = None) -> dict[str, Tensor]:
        """Weights of a block in float32, under their names within it: merged, or the base's where none are learned."""
        import torch

        with torch.no_grad():
            return {
                key.removeprefix(f"{block}."): self._merge.weight(key)
                if key in self._learned
                else self._network.module.get_parameter(key).detach().float()
                for key in (self._blocks[block] if keys is None else keys)
            }

    def _settle(self, sums: dict[str, Tensor]) -> None:
        import torch

        with torch.no_grad():
            self._merge.settle(sums)

    def _check(self, calls: list[BlockCall]) -> None:
        if [call.block for call in calls] != list(self._blocks):
            raise RecipeError(
                "the network does not go through its blocks once each and in their order, so they cannot be "
                "differentiated one by one; write `step_by: model`"
            )
