"""Prompts as a model takes them: its chat template around a picture and a text, as tokens; and the letters' tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.tasks.language.chat import chat_text
from smelt.tasks.questions.prompt import LETTERS
from smelt.tasks.templates.rendering import TemplateLimit

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["conversations", "letter_tokens", "prompt_tokens"]


def conversations(model: ImageText, texts: Sequence[str]) -> list[str]:
    """One user's turn each, the picture first and then the text, up to where the answer begins."""
    try:
        return [
            chat_text(
                model.tokenizer,
                [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}],
                chat_template=model.template,
                add_generation_prompt=True,
            )
            for text in texts
        ]
    except TemplateLimit:
        raise
    except Exception as error:  # whatever a template raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RecipeError(f"{model.label}: its chat template takes no picture beside a text ({reason})") from None


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
    ways = ("", " ") if chat[-1:].isspace() else (" ", "")
    for before in ways:
        ends = [model.tokenizer.encode(before + letter, add_special_tokens=False)[-1:] for letter in LETTERS]
        ids = [end[0] for end in ends if end]
        read = [str(model.tokenizer.decode([one])).strip() for one in ids]
        if len(set(ids)) == len(LETTERS) and read == list(LETTERS):
            return ids
    raise RecipeError(
        f"{model.label}: its tokenizer has no tokens of their own for the letters {LETTERS[0]} to {LETTERS[-1]}; "
        "questions are answered by the letter of an option, so this model cannot be asked"
    )
