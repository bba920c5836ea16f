"""A question as the tokens of a dialogue, and which of them the loss is taken on.

    USER: <image>\\nWhat is shown?\\nA. cat\\n…\\nASSISTANT: B</s>

`<image>` stands for the patches of the picture, one token each. In text alone the picture's place is taken by words: `USER: a
photo of a cat\\nWhat is shown?…`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from families import Question
from smelt.tasks.perturbations.perturbation import PROMPTS
from words import CLOSING, END, EXTRA, IMAGE

PATCHES = 16
LENGTH = 112
"""Tokens of a dialogue at most."""
LETTERS = "ABCDEF"


def ask(question: Question) -> tuple[str, str]:
    """The text of a question with options, and the right letter."""
    options = [*question["options"], *EXTRA]
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([question["question"], *lines, CLOSING]), LETTERS[question["answer"]]


def dialogue(seen: str, asked: str, answer: str, *, before: str = "") -> tuple[str, str]:
    """What comes before the answer, and the answer with its end."""
    return f"{before}USER: {seen}\n{asked}\nASSISTANT:", f" {answer}{END}"


def picture() -> str:
    """The place of a picture."""
    return IMAGE * PATCHES


def some_prompt(draw: random.Random, share: float = 0.3) -> str:
    """Now and then one of the nine lines that stand before a dialogue when models are perturbed."""
    return draw.choice(PROMPTS) if draw.random() < share else ""


def tokens(
    tokenizer, dialogues: Sequence[tuple[str, str]]
) -> tuple[NDArray[np.int16], NDArray[np.uint8], NDArray[np.uint8]]:
    """Ids [n, LENGTH], padded on the right; where the answer begins; how many tokens there are."""
    asked = tokenizer([one for one, _ in dialogues], add_special_tokens=False)["input_ids"]
    said = tokenizer([one for _, one in dialogues], add_special_tokens=False)["input_ids"]
    ids = np.full((len(dialogues), LENGTH), tokenizer.pad_token_id, np.int16)
    start, length = np.zeros(len(dialogues), np.uint8), np.zeros(len(dialogues), np.uint8)
    for number, (first, second) in enumerate(zip(asked, said, strict=True)):
        if len(first) + len(second) > LENGTH:
            raise ValueError(f"a dialogue of {len(first) + len(second)} tokens: {dialogues[number][0]!r}")
        ids[number, : len(first) + len(second)] = first + second
        start[number], length[number] = len(first), len(first) + len(second)
    return ids, start, length


assert len(EXTRA) + 4 == len(LETTERS)
