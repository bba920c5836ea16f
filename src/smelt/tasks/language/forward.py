"""One pass through a language model, with scores only where they are asked for.

A vocabulary is large: scores of every token of a batch would be the largest tensor by far, and nearly all of them are
thrown away. The states that enter the model's own head are cut down to the wanted places first; whatever the model does
after its head (a cap, a scale) is still done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["packs", "scores_at", "window_of"]

_PACKS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""What was found out of modules, so that several tasks try it once."""
_WINDOWS = ("sliding_window", "attention_chunk_size")
"""Words of configs for layers that see only the tokens nearby."""


def scores_at(module: Any, rows: Sequence[int], columns: Sequence[int], **inputs: Any) -> Tensor:
    """Scores [places, vocabulary] in float32 at (row, column) of a batch."""
    import torch

    head = module.get_output_embeddings()
    device = module.get_input_embeddings().weight.device
    places = torch.tensor([list(rows), list(columns)], device=device)

    def cut(_: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (given[0][places[0], places[1]].unsqueeze(0), *given[1:])

    with torch.inference_mode():
        if head is None:
            whole: Tensor = module(**inputs, use_cache=False).logits
            return whole[places[0], places[1]].float()
        hook = head.register_forward_pre_hook(cut)
        try:
            logits: Tensor = module(**inputs, use_cache=False).logits
            return logits[0].float()
        finally:
            hook.remove()


def window_of(module: Any) -> int | None:
    """How many tokens back some layer of a model sees, where that is not all of them."""
    config = getattr(module, "config", None)
    places = [config, getattr(config, "text_config", None)]
    found = [getattr(place, word, None) for place in places for word in _WINDOWS]
    return min((size for size in found if isinstance(size, int) and size > 0), default=None)


def packs(module: Any) -> bool:
    """Whether several continuations may follow one context in one row: tried out on a few tokens, once for a module.

    It needs a mask of our own and positions that begin again, which most architectures take; recurrent ones and those
    that read positions off the mask do not, and then every continuation gets a row of its own.
    """
    if module not in _PACKS:
        _PACKS[module] = _try_packing(module)
    return _PACKS[module]


def _try_packing(module: Any) -> bool:
    import torch

    from smelt.tasks.language.likelihoods import ContextGroup, packed_batch

    words = module.get_input_embeddings().weight
    some = [1 + (37 * number) % (words.shape[0] - 1) for number in range(9)]
    asked = ContextGroup(tuple(some[:3]), [tuple(some[3:6]), tuple(some[6:9])], [0, 1])
    together = packed_batch([asked], words.device, words.dtype)
    try:
        found = scores_at(module, together.rows, together.columns, **together.inputs)
        apart = [
            scores_at(module, one.rows, one.columns, **one.inputs)
            for continuation in asked.continuations
            for one in [packed_batch([ContextGroup(asked.context, [continuation], [0])], words.device, words.dtype)]
        ]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    expected = torch.cat([apart[0], apart[1][1:]])  # the last place of the context is there once
    exact = words.dtype == torch.float32
    return bool((found - expected).abs().max() <= (1e-3 if exact else 0.2) * expected.std())
