"""Prompts as tokens, made once for all models that write and cut them in the same way.

Fine-tunes of one model have one tokenizer and one chat template, each loaded anew; so prompts are known by what these
say, not by the objects. Kept as whole numbers of four bytes.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from smelt.tasks.questions.tokens import conversations, prompt_tokens

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["PromptCache"]


class PromptCache:
    """The prompts of one list of texts."""

    def __init__(self) -> None:
        self._chats: dict[Hashable, list[str]] = {}
        self._tokens: dict[Hashable, list[Sequence[int]]] = {}

    def of(
        self, model: ImageText, texts: Callable[[], list[str]], draw: Hashable, prefixes: Sequence[str] | None
    ) -> tuple[str, list[Sequence[int]]]:
        """The first conversation, and the tokens of all behind their prefixes, which `draw` names."""
        way = (model.template, _words(model.tokenizer))
        if way not in self._chats:
            self._chats[way] = conversations(model, texts())
        chats = self._chats[way]
        if (way, draw) not in self._tokens:
            self._tokens[way, draw] = [array("i", ids) for ids in prompt_tokens(model, chats, prefixes)]
        return chats[0], self._tokens[way, draw]


def _words(tokenizer: Any) -> Hashable:
    """All that a tokenizer's result follows from; where that cannot be told, the tokenizer itself."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return tokenizer  # type: ignore[no-any-return]
    said = f"{type(tokenizer).__name__} {sorted(tokenizer.special_tokens_map.items(), key=str)} {inner.to_str()}"
    return hashlib.sha256(said.encode()).hexdigest()
