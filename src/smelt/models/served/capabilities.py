"""What a server can be asked for, found out by small requests: servers that speak one protocol differ in this.

    text        /v1/completions goes on with a text
    tokens      it takes the numbers of tokens as a prompt, too
    chat        /v1/chat/completions puts words of a user into the model's template
    tokenizer   /tokenize cuts a text into tokens as the model does
    template    /apply-template writes a chat as the text that the model is given
    scoring     how a continuation's log-likelihood can be had:
        echo    the prompt comes back with the log-probability of every token (vLLM, llama-cpp-python)
        forced  a token that is pushed by `logit_bias` comes back with the log-probability that it had without the push
                (llama.cpp's llama-server), so that a continuation is asked for token by token

A server may answer a request and quietly leave out a part of it (`echo` is left out by several), so what counts is the
answer and not its status.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smelt.system.endpoint import Endpoint, EndpointError, EndpointGone

__all__ = ["PUSH", "Capabilities", "echoed", "find_capabilities", "generated", "only_choice", "server_tokens"]

_TEXT = "The sun rises in the east, and it sets in the"
PUSH = 1000
"""What is added to the score of a token that is to come next; scores of tokens lie within 100 of each other."""
_AGREE = 0.1
"""How far a log-probability may lie from what was listed for the same token: kernels differ by batch."""


@dataclass(frozen=True)
class Capabilities:
    """What one server can do, for one of its models."""

    text: bool = False
    tokens: bool = False
    chat: bool = False
    tokenizer: bool = False
    template: bool = False
    scoring: Literal["echo", "forced"] | None = None
    why_no_text: str = ""
    """What the server answered to the request for a text, where it gave none."""
    why_no_chat: str = ""


def find_capabilities(endpoint: Endpoint) -> Capabilities:
    """Six small requests at most; a server that cannot be reached is an error, whatever it refuses is not."""
    text, why_no_text = _attempt(endpoint, "completions", {"prompt": _TEXT, "max_tokens": 1, "temperature": 0})
    said, why_no_chat = _attempt(endpoint, "chat/completions", {**_chat("Hello"), "max_tokens": 1, "temperature": 0})
    chat = _has_message(said)
    if text is None or not isinstance(only_choice(text).get("text"), str):
        return Capabilities(chat=chat, why_no_text=why_no_text, why_no_chat=why_no_chat)
    page, _ = _attempt(endpoint, "/apply-template", _chat("Hello"))
    template = isinstance(page, Mapping) and isinstance(page.get("prompt"), str)
    tokens = server_tokens(endpoint, _TEXT)
    numbers = tokens or [1, 2, 3, 4]  # of a server that does not tell; four small numbers are tokens of any model
    by_tokens, _ = _attempt(endpoint, "completions", {"prompt": numbers, "max_tokens": 1, "temperature": 0})
    takes_tokens = by_tokens is not None and _prompt_size(by_tokens) == len(numbers)
    scoring: Literal["echo", "forced"] | None = None
    if _echoes(endpoint):
        scoring = "echo"
    elif tokens and takes_tokens and _forces(endpoint, tokens):
        scoring = "forced"
    return Capabilities(
        True, takes_tokens, chat, bool(tokens), template, scoring, why_no_text=why_no_text, why_no_chat=why_no_chat
    )


def server_tokens(endpoint: Endpoint, text: str, *, begins: bool = True, tries: int = 1) -> list[int] | None:
    """A text in the server's tokens, with those that begin a text if it `begins` one; None where it does not tell.

    One request has the words of vLLM and of llama.cpp; each leaves the other's alone.
    """
    ours = {"prompt": text, "add_special_tokens": begins}
    page, _ = _attempt(
        endpoint, "/tokenize", {**ours, "content": text, "add_special": begins, "parse_special": True}, tries
    )
    found = page.get("tokens") if isinstance(page, Mapping) else None
    plain = isinstance(found, list) and bool(found) and all(type(one) is int for one in found)
    return list(found) if plain and found is not None else None


def echoed(answer: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]] | None:
    """Tokens, log-probabilities, likeliest tokens and offsets of a prompt that came back; None where it did not."""
    logs = only_choice(answer).get("logprobs")
    size = _prompt_size(answer)
    if not isinstance(logs, Mapping) or not size:
        return None
    words = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    lists = [logs.get(word) for word in words]
    if not all(isinstance(one, list) and len(one) >= size for one in lists):
        return None
    tokens, values, likeliest, offsets = (list(one or []) for one in lists)
    if any(not isinstance(value, float | int) for value in values[1:size]):
        return None
    end = offsets[size] if len(offsets) > size else offsets[size - 1] + len(str(tokens[size - 1]))
    return tokens[:size], values[:size], likeliest[:size], [*offsets[:size], end]


def generated(answer: Any) -> tuple[int, float, int] | None:
    """The first token that was written, its log-probability, and the likeliest token; None where it is not told."""
    logs = only_choice(answer).get("logprobs")
    content = logs.get("content") if isinstance(logs, Mapping) else None
    try:
        first = content[0]  # type: ignore[index]
        return int(first["id"]), float(first["logprob"]), int(first["top_logprobs"][0]["id"])
    except (LookupError, TypeError, ValueError):
        return None


def only_choice(answer: Any) -> Mapping[str, Any]:
    """What was written; nothing where the answer has another form."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _attempt(endpoint: Endpoint, path: str, content: Mapping[str, Any], tries: int = 1) -> tuple[Any, str]:
    """The answer; or None, and what was answered instead."""
    try:
        return endpoint.post(path, content, tries=tries), ""
    except EndpointGone:  # busy, or not there: that says nothing about what it can do
        if tries >= endpoint.tries:
            raise
        return _attempt(endpoint, path, content, endpoint.tries)
    except EndpointError as error:
        return None, str(error)


def _chat(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _has_message(answer: Any) -> bool:
    return isinstance(only_choice(answer).get("message"), Mapping)


def _prompt_size(answer: Any) -> int:
    """The tokens of the prompt, as the server counts them."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    size = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return size if isinstance(size, int) else 0


def _echoes(endpoint: Endpoint) -> bool:
    words = {"prompt": _TEXT, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
    answer, _ = _attempt(endpoint, "completions", words)
    found = None if answer is None else echoed(answer)
    return found is not None and len(found[0]) > 1 and str(only_choice(answer).get("text", "")).lstrip()[:3] == "The"


def _forces(endpoint: Endpoint, tokens: Sequence[int]) -> bool:
    """Whether the second likeliest token, pushed to the front, keeps the log-probability that it was listed with."""
    words = {"prompt": list(tokens), "max_tokens": 1, "temperature": 0, "logprobs": 2}
    answer, _ = _attempt(endpoint, "completions", words)
    logs = only_choice(answer).get("logprobs")
    try:
        second = logs["content"][0]["top_logprobs"][1]  # type: ignore[index]
        token, listed = int(second["id"]), float(second["logprob"])
    except (LookupError, TypeError, ValueError):
        return False
    pushed, _ = _attempt(endpoint, "completions", {**words, "logit_bias": {str(token): PUSH}})
    found = None if pushed is None else generated(pushed)
    return found is not None and found[0] == token and math.isclose(found[1], listed, abs_tol=_AGREE)
