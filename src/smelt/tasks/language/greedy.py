"""Greedy generation: prompts of like length together, padded to the left; what has ended leaves the batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from smelt.errors import NumericalError

__all__ = ["generate"]

_STAY = 0.75
"""When no more than this share of the rows goes on, the others are dropped: a copy that soon pays for itself."""


def generate(
    module: Any,
    prompts: Sequence[Sequence[int]],
    longest: int,
    ends: frozenset[int],
    stopped: Callable[[list[int]], bool] | None = None,
) -> list[list[int]]:
    """The likeliest next token after each prompt, again and again; without the token that ended it.

    It ends at a token of `ends`, after `longest` tokens, or when `stopped` says so of the tokens so far.
    """
    import torch

    if "past_key_values" not in inspect.signature(module.forward).parameters:
        return [_without_cache(module, prompt, longest, ends, stopped) for prompt in prompts]
    device, width = module.device, max(map(len, prompts))
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    seen = torch.zeros(len(prompts), width + longest, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :] = torch.tensor(list(prompt))
        seen[row, width - len(prompt) : width] = 1
    tokens, seen = tokens.to(device), seen.to(device)
    seen[:, width:] = 1
    positions = (seen[:, :width].cumsum(dim=1) - 1).clamp(min=0)
    texts: list[list[int]] = [[] for _ in prompts]
    live, cache = list(range(len(prompts))), None
    with torch.inference_mode():
        for step in range(longest):
            out = module(
                input_ids=tokens,
                attention_mask=seen[:, : width + step],
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache, (score, chosen) = out.past_key_values, out.logits[:, -1].max(dim=-1)
            if not bool(score.isfinite().all()):
                raise NumericalError("scores with NaN or infinity")
            stay = []
            for place, (row, token) in enumerate(zip(live, chosen.tolist(), strict=True)):
                if row < 0 or token in ends:
                    live[place] = -1
                    continue
                texts[row].append(token)
                if stopped is not None and stopped(texts[row]):
                    live[place] = -1
                    continue
                stay.append(place)
            if not stay:
                break
            if len(stay) <= _STAY * len(live):
                kept = torch.tensor(stay, device=device)
                cache.batch_select_indices(kept)
                chosen, seen, positions = chosen[kept], seen[kept], positions[kept]
                live = [live[place] for place in stay]
            tokens, positions = chosen[:, None], positions[:, -1:] + 1
    return texts


def _without_cache(
    module: Any,
    prompt: Sequence[int],
    longest: int,
    ends: frozenset[int],
    stopped: Callable[[list[int]], bool] | None,
) -> list[int]:
    """For models that remember in another way (Mamba): the whole text again for every token, one prompt at a time."""
    import torch

    text: list[int] = []
    with torch.inference_mode():
        while len(text) < longest and not (text and stopped is not None and stopped(text)):
            tokens = torch.tensor([[*prompt, *text]], device=module.device)
            score, chosen = module(input_ids=tokens, use_cache=False).logits[0, -1].max(dim=-1)
            if not bool(score.isfinite()):
                raise NumericalError("scores with NaN or infinity")
            if int(chosen) in ends:
                break
            text.append(int(chosen))
    return text
