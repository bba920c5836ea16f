"""Instruction following: a real text and one or two constraints that the answer must obey, in the manner of IFEval.

The texts are paragraphs of LibreOffice's help, to write again or to write about a title. Answers are made by program and kept only
where the checkers of lm-evaluation-harness say that they obey, and that a mere copy of the text obeys no constraint.
Validation has other texts (the chatterbot corpus), frames and wordings; `instruction-unseen` has kinds of constraint that nothing else has.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import NamedTuple

import yaml

from constraints import Constraint, content, held_out, trained
from files import fetch, write
from libreoffice import core, english, headings
from smelt.tasks.language.scoring.instructions import follows
from wordings import HELD_OUT, REPEATED, TRAINED, VALIDATION

COPY = (
    "Repeat this text: {text}",
    "Write the following text again.\n{text}",
    "Here is a text:\n{text}\n\nWrite it again.",
    "Rewrite this sentence: {text}",
)
FIRST = (
    "What is the first sentence of this text?\n{text}",
    "{text}\n\nGive only the first sentence of the text above.",
)
OTHER = ("Say this once more: {text}", "I would like to read this line again:\n{text}", "Copy: {text}")
WRITE = (
    'Write a sentence about "{text}".',
    "Explain in a sentence: {text}.",
    'What can you tell me about "{text}" in an office program?',
)
REPLY = ("Please answer: {text}", "Somebody says: {text}\nWhat is your reply?")
ABOUT = ('Is "{word}" a word of this text?\n{text}', 'Does this text speak of "{word}"?\n{text}')
OPEN = ("lower", "upper", "quotes", "end", "title", "postscript", "bullets", "paragraphs", "keywords", "highlights")
"""Constraints that do not depend on the words of the answer: an open request may have them."""
FULL, TRAIN, TEST, UNSEEN, VAL = 25_000, 1_000, 300, 200, 120
WORDS = (6, 28)
"""How long an answer is before it is changed."""


class Text(NamedTuple):
    """A text with its source, what may be asked about it, and the answer before constraints."""

    source: str
    text: str
    answer: str
    frames: tuple[str, ...]


def help_texts(part: str) -> list[Text]:
    """Short paragraphs to copy, longer ones of which the first sentence is asked for, and the titles of their pages."""
    found = []
    for page, paragraphs in english(part, 8, 60).items():
        title = headings().get(page)
        for name, text in paragraphs:
            first = text.split(". ")[0] + "." if ". " in text else text
            if '"' in text or not WORDS[0] <= len(first.split()) <= WORDS[1]:
                continue
            found.append(Text(f"{page}#{name}", text, first, COPY if first == text else FIRST))
            if title:
                found.append(Text(f"{page}#{name}", title, first, WRITE))
    return found


@functools.cache
def chats() -> dict[str, list[tuple[str, str]]]:
    """File of the chatterbot corpus → first line and first reply of its conversations, each once."""
    found, seen = {}, set()
    for path in sorted(fetch.package("chatterbot-corpus").glob("**/data/english/*.yml")):
        pairs = []
        for said, reply, *_ in (
            talk for talk in yaml.safe_load(path.read_text(encoding="utf-8"))["conversations"] if len(talk) > 1
        ):
            said, reply = " ".join(str(said).split()), " ".join(str(reply).split())
            fit = WORDS[0] <= len(reply.split()) <= WORDS[1] and not set('*"<>[]`') & set(said + reply)
            if fit and not {core(said), core(reply)} & seen:
                seen |= {core(said), core(reply)}
                pairs.append((said, reply[0].upper() + reply[1:]))
        found[path.stem] = pairs
    return found


def talk_texts() -> list[Text]:
    """Lines of the corpus for validation: replies to write again, and messages to answer."""
    found = []
    for file, pairs in chats().items():
        for number, (said, reply) in enumerate(pairs):
            found.append(Text(f"{file}#{number}", reply, reply, OTHER))
            found.append(Text(f"{file}#{number}", said, reply, REPLY))
    return found


def example(
    text: Text, kinds: tuple[str, ...], types: dict[str, Constraint], wordings: dict, rng: random.Random
) -> dict | None:
    """A prompt and an answer, or None where the text will not do."""
    frame = rng.choice(ABOUT if "options" in kinds else text.frames)
    body, asked = text.answer, []
    if text.frames in (WRITE, REPLY) and not set(kinds) <= set(OPEN):
        return None
    if "repeat" in kinds and text.frames is not COPY:
        return None
    drawn = {kind: types[kind].draw(body, rng) for kind in kinds}
    if any(arguments is None for arguments in drawn.values()):
        return None
    prompt = frame.format(text=text.text, word=(content(text.text) or ["text"])[0])
    if "repeat" in kinds:
        drawn["repeat"] = {"prompt_to_repeat": rng.choice(list(REPEATED))}
        prompt = f"{text.text}\n\n{drawn['repeat']['prompt_to_repeat']}"
    for kind in kinds:
        shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in drawn[kind].items()}
        asked.append(rng.choice(wordings[kind]).format(**shown))
    for kind in sorted(kinds, key=lambda kind: types[kind].stage):
        body = types[kind].apply(body, drawn[kind], rng)
    made = {
        "prompt": prompt + ("\n" if "\n" in prompt else " ") + " ".join(asked),
        "answer": body,
        "instruction_id_list": [types[kind].checker for kind in kinds],
        "kwargs": [drawn[kind] for kind in kinds],
        "id": text.source,
    }
    copied = any(follows(made, text.text)) or any(follows(made, text.answer))
    return made if all(follows(made, body)) and not copied and len(body.split()) <= 45 else None


def examples(
    count: int, texts: list[Text], types: dict[str, Constraint], wordings: dict, seed: str, pairs: float
) -> list[dict]:
    """So many examples, kinds of constraint in turn, a share of them with two; no prompt twice."""
    rng = random.Random(seed)
    names, made, turn = list(types), {}, 0
    order = rng.sample(texts, len(texts))
    while len(made) < count:
        kinds = (names[turn % len(names)],)
        if rng.random() < pairs:
            kinds = (*kinds, rng.choice([name for name in names if name not in kinds]))
        for _ in range(60):
            text = order[rng.randrange(len(order))]
            if (record := example(text, kinds, types, wordings, rng)) and record["prompt"] not in made:
                made[record["prompt"]] = record
                break
        turn += 1
    return list(made.values())


def build() -> dict[str, list[dict]]:
    train, test = help_texts("train"), help_texts("test")
    counts = Counter(word.lower() for text in train for word in content(text.answer))
    vocabulary = sorted(word for word, count in counts.items() if count >= 8 and len(word) <= 10)
    seen, copied = trained(vocabulary), [text for text in test if text.frames is not WRITE]
    full = examples(FULL, train, seen, TRAINED, "instruction full", 0.4)
    built = {
        "full": full,
        "train": full[:TRAIN],
        "instruction/test": examples(TEST, test, trained(vocabulary, held=True), TRAINED, "instruction test", 0.4),
        "instruction-unseen/test": examples(UNSEEN, copied, held_out(), HELD_OUT, "instruction unseen", 0),
        "instruction-val/val": examples(VAL, talk_texts(), seen, VALIDATION, "instruction val", 0.3),
    }
    check(built)
    return built


def check(built: dict[str, list[dict]]) -> None:
    """No source paragraph and no prompt is in two of training, validation and test."""
    parts: dict[str, list[dict]] = {"train": built["full"], "val": [], "test": []}
    for key, records in built.items():
        if "/" in key:
            parts[key.split("/")[1]] += records
    for what in ("id", "prompt"):
        texts = {part: {record[what] for record in records} for part, records in parts.items()}
        assert not texts["train"] & (texts["val"] | texts["test"]), what
        assert not texts["val"] & texts["test"], what


if __name__ == "__main__":
    write(build(), "instruction")
