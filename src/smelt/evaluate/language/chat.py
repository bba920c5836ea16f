"""Chats as text, the same on every day: some templates (Llama 3.1, 3.2) write today's date into the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["chat_text"]

_TODAY = "26 Jul 2024"
"""The day that Llama's own templates fall back on."""


def chat_text(tokenizer: Any, messages: Sequence[dict[str, str]], **words: Any) -> str:
    """Messages in the tokenizer's own template; it is always the same day where the template can be told it."""
    return str(tokenizer.apply_chat_template(list(messages), tokenize=False, date_string=_TODAY, **words))
