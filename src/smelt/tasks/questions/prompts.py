"""Prompts as a model takes them: its chat template around a picture and a text, as tokens; and the letters' tokens."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.tasks.language.chat import chat_text
from smelt.tasks.questions.records import LETTERS
from smelt.tasks.template_sandbox.rendering import TemplateLimit

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["PromptCache", "conversation", "conversations", "letter_tokens", "prompt_tokens"]


def conversation(model: ImageText, content: list[dict[str, str]]) -> str:
    """One user's turn, of pictures and texts, up to where the answer begins."""
    asked = [{"role": "user", "content": content}]
    try:
        chat = chat_text(model.tokenizer, asked, chat_template=model.template, add_generation_prompt=True)
    except TemplateLimit:
        raise
    except Exception as error:  # whatever a template raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RecipeError(f"{model.label}: its chat template takes no picture beside a text ({reason})") from None
    for mark, written in model.kind.written.items():
        chat = chat.replace(mark, written)
    return chat


def conversations(model: ImageText, texts: Sequence[str]) -> list[str]:
    """One turn each, the picture first and then the text."""
    return [conversation(model, [{"type": "image"}, {"type": "text", "text": text}]) for text in texts]


def prompt_tokens(model: ImageText, chats: Sequence[str], prefixes: Sequence[str] | None = None) -> list[list[int]]:
    """The tokens of conversations, each behind its prefix without a separator; the token that begins texts stays first.

    A template may write that token itself, else the tokenizer adds it.
    """
    begin = str(model.tokenizer.bos_token or "")
    written = bool(begin) and chats[0].startswith(begin)
    start = begin if written else ""
    fronts = prefixes or [""] * len(chats)
    texts = [start + front + chat.removeprefix(start) for front, chat in zip(fronts, chats, strict=True)]
    found: list[list[int]] = model.tokenizer(texts, add_special_tokens=not written)["input_ids"]
    return found


def letter_tokens(model: ImageText, chat: str) -> list[int]:
    """The token with which an answer A, B, ... begins after a conversation like this one.

    After "ASSISTANT:" that is a letter with a space before it, after a new line the letter alone; where a tokenizer has
    no such token for each letter, the other way is tried.
    """
    endings = ("", " ") if chat[-1:].isspace() else (" ", "")
    for before in endings:
        ends = [model.tokenizer.encode(before + letter, add_special_tokens=False)[-1:] for letter in LETTERS]
        ids = [end[0] for end in ends if end]
        read = [str(model.tokenizer.decode([one])).strip() for one in ids]
        if len(set(ids)) == len(LETTERS) and read == list(LETTERS):
            return ids
    raise RecipeError(
        f"{model.label}: its tokenizer has no tokens of their own for the letters {LETTERS[0]} to {LETTERS[-1]}; "
        "questions are answered by the letter of an option, so this model cannot be asked"
    )


class PromptCache:
    """The prompts of one list of texts as tokens, made once for all models that write and cut them in the same way.

    Fine-tunes of one model have one tokenizer and one chat template, each loaded anew; so prompts are known by what
    these say, not by the objects. Kept as whole numbers of four bytes.
    """

    def __init__(self) -> None:
        self._chats: dict[Hashable, list[str]] = {}
        self._tokens: dict[Hashable, list[Sequence[int]]] = {}

    def of(
        self, model: ImageText, texts: Callable[[], list[str]], draw: Hashable, prefixes: Sequence[str] | None
    ) -> tuple[str, list[Sequence[int]]]:
        """The first conversation, and the tokens of all behind their prefixes, which `draw` names."""
        key = (model.template, _tokenizer_key(model.tokenizer))
        if key not in self._chats:
            self._chats[key] = conversations(model, texts())
        chats = self._chats[key]
        if (key, draw) not in self._tokens:
            self._tokens[key, draw] = [array("i", ids) for ids in prompt_tokens(model, chats, prefixes)]
        return chats[0], self._tokens[key, draw]


def _tokenizer_key(tokenizer: Any) -> Hashable:
    """All that a tokenizer's result follows from; where that cannot be told, the tokenizer itself."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return tokenizer  # type: ignore[no-any-return]
    said = f"{type(tokenizer).__name__} {sorted(tokenizer.special_tokens_map.items(), key=str)} {inner.to_str()}"
    return hashlib.sha256(said.encode()).hexdigest()
