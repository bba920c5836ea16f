"""Chats as text, the same on every day: some templates (Llama 3.1, 3.2) write today's date into the prompt.

A chat template comes with a model, so it is rendered apart and within limits (`tasks/templates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.tasks.template_sandbox.rendering import TemplateFailed, render

__all__ = ["chat_text"]

_TODAY = "26 Jul 2024"
"""The day that Llama's own templates fall back on."""
_MARK = "CONTINUE_HERE_7C1F "


def chat_text(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    *,
    chat_template: str | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
) -> str:
    """Messages in the tokenizer's own template; it is always the same day where the template can be told it.

    With `continue_final_message` the text ends where the last message does, so that a model goes on with it.
    """
    words = {"add_generation_prompt": add_generation_prompt, "date_string": _TODAY}
    if not _has_template(tokenizer):  # no template at all, but Python: a library's own, or code that was permitted
        words |= {"continue_final_message": continue_final_message}
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **words))
    template = tokenizer.get_chat_template(chat_template)
    asked = [dict(message) for message in messages]
    if continue_final_message:
        asked[-1]["content"] += _MARK
    known = {**tokenizer.special_tokens_map, "tools": None, "documents": None, **words}
    try:
        text = render(template, {**known, "messages": asked}, kind="chat")
    except TemplateFailed as error:
        raise type(error)(f"{tokenizer.name_or_path}, its chats: {error}") from None
    return _until_mark(text) if continue_final_message else text


def _has_template(tokenizer: Any) -> bool:
    """Whether chats of a tokenizer are written by a template, as nearly all are."""
    from transformers import PreTrainedTokenizerBase

    return getattr(type(tokenizer), "apply_chat_template", None) is PreTrainedTokenizerBase.apply_chat_template


def _until_mark(text: str) -> str:
    """What comes before the mark; where the template has cut spaces off its end, also off what comes before."""
    before, found, after = text.rpartition(_MARK.strip())
    if not found:
        raise TemplateFailed("the chat template leaves out the end of the last message, so it cannot be continued")
    return before if after.startswith(" ") else before.rstrip()
