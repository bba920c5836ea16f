"""The log-likelihood of a continuation, from a server.

    echo      one request: context and continuation come back with the log-probability of every token
    forced    a request for each token of the continuation: it is pushed to the front, and comes back with the
              log-probability that it had without the push

Where the tokens are known (by the server's /tokenize or the tokenizer of `text_from`) the continuation is those tokens
that come after as many as the context has by itself: the harness's rule, and the one for models in memory. Where they
are not, offsets in the text decide, and a token that straddles the border counts to the context: the same tokens,
unless the context alone is cut into another number of tokens than as the beginning of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from smelt.caller import Blank, option
from smelt.errors import NumericalError
from smelt.models.served.capabilities import PUSH, echoed, generated
from smelt.models.served.model import ServedModel
from smelt.system.endpoint import EndpointError
from smelt.tasks.language.served.at_once import at_once
from smelt.tasks.task import TaskError

__all__ = ["score_texts", "score_tokens"]

Tokens: TypeAlias = tuple[int, ...]
Score: TypeAlias = tuple[float, bool]
"""A log-likelihood, and whether every token is the likeliest."""
_GREEDY = {"max_tokens": 1, "temperature": 0, "logprobs": 1}


def score_tokens(
    model: ServedModel, pairs: Sequence[tuple[Tokens, Tokens]], count: int, tell: Callable[[int], None]
) -> list[Score]:
    """Of (context, continuation) in tokens; `count` requests are under way at a time.

    Token by token, the continuations of one context follow each other: a server has the context ready then. For the
    same reason no more are under way than it has places for texts.
    """
    forced = model.can.scoring == "forced"
    groups: dict[Any, list[int]] = {}
    for number, (context, _) in enumerate(pairs):
        groups.setdefault(context if forced else number, []).append(number)

    def scored(numbers: Sequence[int]) -> list[Score]:
        found = []
        for context, continuation in (pairs[number] for number in numbers):
            if not continuation:  # of nothing the likelihood is one
                found.append((0.0, True))
            elif forced:
                found.append(_forced(model, context, continuation))
            else:
                found.append(_echoed(model, [*context, *continuation], len(context)))
            tell(1)
        return found

    places = model.told.get("slots") if forced else None
    several = at_once(scored, groups.values(), min(count, places) if isinstance(places, int) else count)
    by_number = dict(zip([number for numbers in groups.values() for number in numbers], chain(*several), strict=True))
    return [by_number[number] for number in range(len(pairs))]


def score_texts(
    model: ServedModel, pairs: Sequence[tuple[str, str]], count: int, tell: Callable[[int], None]
) -> list[Score]:
    """Of (context, continuation) as texts, where nobody here knows the tokens."""

    def one(pair: tuple[str, str]) -> Score:
        context, continuation = pair
        words = {"prompt": context + continuation, **_GREEDY, "echo": True}
        tokens, values, likeliest, offsets = _lists(model, model.endpoint.post("completions", words))
        border = offsets[-1] - len(continuation)  # from the end: what begins a text may be counted at its beginning
        first = next((place for place in range(len(tokens)) if offsets[place] >= border), len(tokens))
        tell(1)
        return _summed(model, values[first:], likeliest[first:])

    return at_once(one, pairs, count)


def _echoed(model: ServedModel, tokens: Sequence[int], first: int) -> Score:
    words = {"prompt": list(tokens), **_GREEDY, "echo": True}
    found, values, likeliest, _ = _lists(model, model.endpoint.post("completions", words))
    if len(found) != len(tokens):
        raise EndpointError(
            f"{model.label} was sent {len(tokens)} tokens and counts {len(found)}: they are not the model's own"
        )
    return _summed(model, values[first:], likeliest[first:])


def _forced(model: ServedModel, context: Sequence[int], continuation: Sequence[int]) -> Score:
    total, greedy, prompt = 0.0, True, list(context)
    for token in continuation:
        words = {"prompt": prompt, **_GREEDY, "logit_bias": {str(token): PUSH}}
        found = generated(model.endpoint.post("completions", words))
        if found is None or found[0] != token:
            raise EndpointError(f"{model.label} did not answer with token {token}, which was pushed to the front")
        total, greedy = total + found[1], greedy and found[2] == token
        prompt.append(token)
    return _finite(model, total), greedy


def _lists(model: ServedModel, answer: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    found = echoed(answer)
    if found is None:
        raise EndpointError(f"{model.label} left out the log-probabilities of a prompt")
    return found


def _summed(model: ServedModel, values: Sequence[Any], likeliest: Sequence[Any]) -> Score:
    if any(value is None for value in values):
        raise TaskError(
            f"{model.label} gives no log-probability of the first token of a text, and a task asks for one without a "
            f"context; name a model with its tokenizer as {option('text_from', Blank('MODEL'))}"
        )
    greedy = all(not best or value >= max(best.values()) for value, best in zip(values, likeliest, strict=True))
    return _finite(model, float(sum(values))), greedy


def _finite(model: ServedModel, total: float) -> float:
    if not math.isfinite(total):
        raise NumericalError(f"{model.label} gives scores with NaN or infinity")
    return total
