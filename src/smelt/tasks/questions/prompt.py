"""The text of a question: a hint where there is one, the question, a line for every option, what to answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.tasks.questions.records import Question

__all__ = ["EXTRA", "INSTRUCTION", "LETTERS", "options_of", "prompt_of"]

LETTERS = "ABCDEF"
EXTRA = ("I don't know", "None of the above")
"""The two answers that every question has beside its own, last."""
INSTRUCTION = "Reply with the letter of the right option only."


def options_of(question: Question, extra: Sequence[str] = EXTRA) -> tuple[str, ...]:
    """The options in the order of their letters: the question's own, then the extra ones."""
    return (*question.options, *extra)


def prompt_of(question: Question, extra: Sequence[str] = EXTRA, instruction: str = INSTRUCTION) -> str:
    """The words of the one who asks; the picture comes before them."""
    lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, options_of(question, extra), strict=False)]
    return "\n".join([*([question.hint] if question.hint else []), question.text, *lines, instruction])
