"""Greedy generation: prompts of like length together, padded to the left; what has ended leaves the batch.

Of texts alone and of texts with pictures; what they share is here: when an answer ends, and what is asked together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.tasks.language.likelihoods import BatchBudget

__all__ = ["StopRule", "cut", "end_tokens", "generate", "greedy_only", "reached", "together"]

_STAY = 0.75
"""When no more than this share of the rows goes on, the others are dropped: a copy that soon pays for itself."""
_GREEDY = {"do_sample": (False, None), "num_beams": (1, None), "num_return_sequences": (1, None)}
_HARMLESS = {"temperature", "top_p", "top_k", "use_cache"}
"""Words of generation that mean nothing where the likeliest token is taken."""


@dataclass(frozen=True, order=True)
class StopRule:
    """When an answer ends, beside the model's own end: after so many tokens, or before one of these texts."""

    longest: int
    until: tuple[str, ...] = ()

    @classmethod
    def of(cls, longest: int, until: Any) -> StopRule:
        """`until` as tasks give it: a text, several, or nothing."""
        return cls(longest, tuple(stop for stop in ([until] if isinstance(until, str) else until or ()) if stop))


def greedy_only(words: Mapping[str, Any], harmless: Iterable[str], what: str, limit: str) -> None:
    """Refuse words of a task's `generation_kwargs` that ask for anything but greedy decoding.

    `what` are the tasks, for messages, and `limit` is their word for the most tokens.
    """
    for word, value in words.items():
        if word in _GREEDY and value not in _GREEDY[word]:
            raise TaskError(f"generation_kwargs: {word}: {value!r}; {what} are answered greedily, without it")
        if word not in _GREEDY and word not in _HARMLESS and word not in harmless and word not in (limit, "until"):
            raise TaskError(f"generation_kwargs: {word} is not understood; there is {limit} and until")


def end_tokens(module: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer: the tokenizer's, and those of the model's generation config."""
    told = getattr(getattr(module, "generation_config", None), "eos_token_id", None)
    some = told if isinstance(told, list) else [told]
    return frozenset(int(one) for one in [*some, tokenizer.eos_token_id] if one is not None)


def together(asked: Sequence[tuple[Sequence[int], StopRule]], budget: BatchBudget) -> list[list[int]]:
    """Numbers of prompts (tokens, rule) that can be answered together: same rule, like length, within the budget."""
    batches: list[list[int]] = []
    for number in sorted(range(len(asked)), key=lambda number: (asked[number][1], -len(asked[number][0]))):
        rule = asked[number][1]
        last = batches[-1] if batches else []
        first = asked[last[0]] if last else None
        wide = (len(first[0]) + rule.longest) * (len(last) + 1) if first else 0
        fits = wide <= 4 * budget.tokens and len(last) < budget.rows
        if first is not None and first[1] == rule and fits:
            last.append(number)
        else:
            batches.append([number])
    return batches


def reached(tokenizer: Any, until: Sequence[str]) -> Callable[[list[int]], bool] | None:
    """Whether a text has reached a stop; a look at as many tokens as the longest stop has bytes will do."""
    if not until:
        return None
    back = max(len(stop.encode()) for stop in until) + 1

    def stopped(tokens: list[int]) -> bool:
        tail = tokenizer.decode(tokens[-back:], skip_special_tokens=True)
        return any(stop in tail for stop in until)

    return stopped


def cut(text: str, until: Sequence[str]) -> str:
    """What comes before the first stop."""
    return re.split("|".join(map(re.escape, until)), text, maxsplit=1)[0] if until else text


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
