"""A language model as a function of its weights: tokens in, the scores of the next token at the answers' places out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from smelt.errors import RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.models.families.causal_lm.block_calls import BlockCall, Cuttable, WeightsOf, cut_at_blocks
from smelt.models.families.network import sharing_copy
from smelt.ops.narrow import narrow

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.batch import TokenBatch
    from smelt.models.families.network import Network

__all__ = ["CausalNetwork", "at_answers"]

_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}
"""Checkpointed classes of blocks, by the plain ones."""


class CausalNetwork:
    """`inputs` are a TokenBatch; a `head` means nothing to it. Its keys are all weights but embeddings and head.

    With `include` they are the weights that these patterns mean, whatever they are. Gradients are checkpointed block
    by block. Scores are computed for the judged tokens alone: those of a whole text would be the largest tensor by far.
    """

    def __init__(self, module: nn.Module, device: str, include: Sequence[str] = ()):
        self.module = _with_checkpoints(module)
        self.device, self._include = device, tuple(include)
        self.keys = tuple(
            name for name, own in module.named_parameters() if own.is_floating_point() and self._own(name)
        )
        if not self.keys:
            raise RecipeError(
                f"{type(module).__name__}: no weight matches `include: [{', '.join(self._include)}]`"
                if self._include
                else f"{type(module).__name__}: has no weights beside embeddings and head; name some with `include`"
            )

    @property
    def vocabulary(self) -> int:
        return len(self._head.get_parameter("weight"))

    def weights(self) -> dict[str, Tensor]:
        own = dict(self.module.named_parameters())
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: TokenBatch, head: Tensor | None = None) -> Tensor:
        """Scores [judged tokens, vocabulary] in fp32, in the order of `inputs.targets`."""
        words = {"input_ids": inputs.ids, "attention_mask": inputs.mask.long(), "use_cache": False}
        hook = self._head.register_forward_pre_hook(at_answers(inputs))
        try:
            scores = functional_call(self.module, dict(weights), (), words).logits
        finally:
            hook.remove()
        found: Tensor = scores[0].float()
        return found

    def replica(self) -> Network:
        return CausalNetwork(sharing_copy(self.module), self.device, self._include)

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """The blocks by name, in the order of the model, and the floating-point weights of each by their whole names.

        None where a weight of a block is one of another place as well: then no block stands for itself.
        """
        parts = {name: self._floats(name, block) for name, block in _blocks(self.module).items()}
        places: dict[int, set[str]] = {}
        for name, own in self.module.named_parameters(remove_duplicate=False):
            places.setdefault(id(own), set()).add(name)
        inside = {id(self.module.get_parameter(name)) for names in parts.values() for name in names}
        return {} if any(len(places[one]) > 1 for one in inside) else parts

    def cut(self, weights_of: WeightsOf) -> AbstractContextManager[list[BlockCall]]:
        """Passes through this network are cut at its blocks, which compute with `weights_of(block)`."""
        return cut_at_blocks(_blocks(self.module), weights_of)

    @contextmanager
    def narrowed(self) -> Iterator[None]:
        """The weights of the blocks in half the room, where they lose nothing by it; then as they were.

        Within, the blocks cannot compute with their own weights.
        """
        names = [name for names in self.blocks.values() for name in names]
        kinds = {name: self.module.get_parameter(name).dtype for name in names}
        try:
            for name in names:
                self._replace(name, narrow(self.module.get_parameter(name).detach()))
            yield
        finally:
            for name, kind in kinds.items():
                self._replace(name, self.module.get_parameter(name).detach().to(kind))

    def _replace(self, name: str, tensor: Tensor) -> None:
        owner, _, leaf = name.rpartition(".")
        slots = self.module.get_submodule(owner)._parameters
        if slots[leaf] is not None and slots[leaf].dtype != tensor.dtype:  # type: ignore[union-attr]
            slots[leaf] = nn.Parameter(tensor, requires_grad=False)

    @staticmethod
    def _floats(prefix: str, block: nn.Module) -> tuple[str, ...]:
        own = block.named_parameters(remove_duplicate=False)
        return tuple(f"{prefix}.{name}" for name, tensor in own if tensor.is_floating_point())

    @property
    def _head(self) -> nn.Module:
        found = self.module.get_output_embeddings()  # type: ignore[operator]
        assert found is not None
        head: nn.Module = found
        return head

    def _own(self, name: str) -> bool:
        if not self._include:
            return not Layout.holds_vocabulary(name) and not Layout.before_blocks(name)
        from smelt.recipe.patterns import matches

        return any(matches(pattern, name) for pattern in self._include)


def at_answers(inputs: TokenBatch) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    """Hands the head the last hidden states [1, judged tokens, width]: each of the token BEFORE a judged one."""

    def select(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (given[0][:, :-1][inputs.answers[:, 1:]][None],)

    return select


class _Checkpointed(Cuttable):
    """Stands before the class of a block, which then keeps its inputs alone: the rest is computed again for gradients.

    transformers' own gradient checkpointing works in training mode only (dropout!), and computes again with the
    module's own weights; here it is with the weights that the block was called with, which may be any. A block changes
    its class, not its `forward`: so copies of the module are as good as the module.
    """

    def forward(self: Any, *given: Any, **words: Any) -> Any:
        if self._instead is not None:
            return self._instead(self, given, words)
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


def _with_checkpoints(module: nn.Module) -> nn.Module:
    """Change a model in place: its blocks are checkpointed wherever gradients flow."""
    for block in _blocks(module).values():
        kind = type(block)
        if not issubclass(kind, _Checkpointed):
            if kind not in _CLASSES:
                _CLASSES[kind] = type(kind.__name__, (_Checkpointed, kind), {"__module__": kind.__module__})
            block.__class__ = _CLASSES[kind]
    return module


def _blocks(module: nn.Module) -> dict[str, nn.Module]:
    """The blocks of a model by name: the modules of its longest ModuleList that is in no other."""
    lists = {name: one for name, one in module.named_modules() if isinstance(one, nn.ModuleList)}
    outer = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]
    if not outer:
        return {}
    longest = max(outer, key=lambda name: len(lists[name]))
    return {f"{longest}.{number}": block for number, block in enumerate(lists[longest])}
