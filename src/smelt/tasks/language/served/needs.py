"""What a task needs of a server, told before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.caller import Blank, option
from smelt.models.served.model import ServedModel

__all__ = ["served_refusal"]

_SERVERS = (
    "serve it with vLLM (`echo`), llama.cpp's llama-server (`logit_bias`) or llama-cpp-python (`logits_all`), or take "
    "tasks that are answered in words"
)


def served_refusal(model: ServedModel, name: str, kinds: Iterable[str], *, chat: bool, may_do_without: bool) -> str:
    """Why a task cannot be asked: what its server lacks, and what to do; nothing where it can.

    `kinds` are the harness's output types; a `chat` is one that may do without a template, or not.
    """
    software = model.told.get("software")
    where = f"{model.label} ({software})" if software else model.label
    scores = any(kind != "generate_until" for kind in kinds)
    if chat and not model.has_chat and not may_do_without:
        if model.tokenizer is not None:
            return f"{name}: its prompts go into a chat template, but {model.text_from} has none"
        return f"{name}: its prompts are chats, and {where} answers none ({model.can.why_no_chat or 'no message'})"
    chats = chat and model.has_chat
    if scores and model.can.scoring is None:
        return f"{name}: its choices are scored by log-likelihood, and {where} gives none of a prompt; {_SERVERS}"
    if scores and chats and model.tokenizer is None and not model.can.template:
        return (
            f"{name}: its choices stand in a chat, and {where} does not tell how one is written (/apply-template); "
            f"name the model that has its template with {option('text_from', Blank('MODEL'))}"
        )
    if not model.can.text and (scores or not chats or model.tokenizer is not None):
        return f"{name}: it goes on with a text, and {where} does not ({model.can.why_no_text or 'no text'})"
    return ""
