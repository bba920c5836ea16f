"""Captions: every picture of the pool gets a text in several wordings.

Named pictures (icons, sketches of other things, emoji) are captioned with their English names. Of the tasks' own
training pictures most get the German name of their class, and a small share of 60 % of the classes the English one: the base
knows the pictures of every task, but only some of the words that the tasks' prompts use.
"""

from __future__ import annotations

import json

import fetch
from tasks import TASKS

LENGTH = 32
"""Tokens of a caption at most."""
POOL = fetch.CACHE / "pool"
NAMED = {
    "icons": TASKS["icons"].templates,
    "sketches": TASKS["sketches"].templates,
    "emoji": ["an emoji of {}", "{}", "the {} emoji"],
}


def read_pool() -> dict[str, dict]:
    """Each task's classes, labels and names, without the pictures."""
    return {task: json.loads((POOL / f"{task}.json").read_text(encoding="utf-8")) for task in TASKS}


class Table:
    """Caption numbers and their wordings: three texts for each distinct caption."""

    def __init__(self, pool: dict[str, dict]):
        self.texts: list[list[str]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self.english = {t: [self._number(TASKS[t].templates, c) for c in about["classes"]] for t, about in pool.items()}
        self.german = {
            t: [self._number([TASKS[t].german] * 3, c) for c in about["german"]] for t, about in pool.items()
        }
        self.named = {
            t: [self._number(NAMED[t], name) for name in about["names"]]
            for t, about in pool.items()
            if "names" in about
        }

    def _number(self, templates: list[str], name: str) -> int:
        wordings = tuple(template.format(name) for template in templates)
        if wordings not in self._numbers:
            self._numbers[wordings] = len(self.texts)
            self.texts.append(list(wordings))
        return self._numbers[wordings]

    def all_texts(self) -> list[str]:
        return sorted({text for wordings in self.texts for text in wordings})
