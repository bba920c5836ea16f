"""A language model as a function of its weights: tokens in, the scores of the next token at the answers' places out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.formats.architecture.layout import Layout
from smelt.models.families.causal_lm.gradient_checkpoints import with_checkpoints
from smelt.models.families.network import sharing_copy

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.models.families.causal_lm.batch import TokenBatch
    from smelt.models.families.network import Network

__all__ = ["CausalNetwork"]


class CausalNetwork:
    """`inputs` are a TokenBatch; a `head` means nothing to it. Its keys are all weights but embeddings and head.

    With `include` they are the weights that these patterns mean, whatever they are. Gradients are checkpointed block
    by block. Scores are computed for the judged tokens alone: those of a whole text would be the largest tensor by far.
    """

    def __init__(self, module: nn.Module, device: str, include: Sequence[str] = ()):
        self.module = with_checkpoints(module)
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
        from torch.func import functional_call

        words = {"input_ids": inputs.ids, "attention_mask": inputs.mask.long(), "use_cache": False}
        hook = self._head.register_forward_pre_hook(_at_answers(inputs))
        try:
            scores = functional_call(self.module, dict(weights), (), words).logits
        finally:
            hook.remove()
        found: Tensor = scores[0].float()
        return found

    def replica(self) -> Network:
        return CausalNetwork(sharing_copy(self.module), self.device, self._include)

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


def _at_answers(inputs: TokenBatch) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    """Hands the head the last hidden states [1, judged tokens, width]: each of the token BEFORE a judged one."""

    def select(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (given[0][:, :-1][inputs.answers[:, 1:]][None],)

    return select
