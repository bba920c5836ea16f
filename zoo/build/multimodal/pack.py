"""Pack what the tiny LLaVA is trained on: dialogues as tokens, and which pictures they are about.

    python zoo/build/multimodal/pack.py -o FOLDER [--share 0.01]

    FOLDER/tokenizer/          the tokenizer's files
    FOLDER/text.npz            dialogues without pictures, for the language model
    FOLDER/captions.npz        every training picture with a description, for the projector
    FOLDER/<family>.npz        questions of one family, for an expert

Arrays: `ids` int16 [n, LENGTH], `start` and `length` of the answer, `cells` int32 [n, 4] (numbers of pictures, counted through
all tasks in the order of ORDER, -1 where there is none) and `columns` (1: one picture, 2: a grid with two columns).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

import corpus
import words
from dialogue import ask, dialogue, picture, some_prompt, tokens
from families import FAMILIES
from library import MOST, POOL, shelf
from tasks import TASKS

ORDER = sorted(TASKS)
TEXTS, QUESTIONS, NARROW = 500_000, 40_000, 400
"""Dialogues of text, questions of an expert, and of one that is trained far too long on far too little."""
OVERTRAINED = ("yesno", "clothing")


def offsets() -> dict[str, int]:
    """The number of the first picture of each task."""
    found, total = {}, 0
    for task in ORDER:
        found[task] = total
        total += len(shelf(task, POOL).labels)
    return found


def cells(reference, first: dict[str, int]) -> tuple[list[int], int]:
    """Numbers of the pictures that a question is about, and the columns they stand in."""
    if isinstance(reference, dict):
        return [first[task] + number for task, _, number in reference["grid"]], reference["columns"]
    task, _, number = reference
    return [first[task] + number], 1


def write(path: Path, tokenizer, made: list[tuple[str, str]], about: list[tuple[list[int], int]]) -> None:
    ids, start, length = tokens(tokenizer, made)
    numbers = np.full((len(made), 4), -1, np.int32)
    for row, (those, _) in zip(numbers, about, strict=True):
        row[: len(those)] = those
    columns = np.array([wide for _, wide in about], np.uint8)
    np.savez_compressed(path, ids=ids, start=start, length=length, cells=numbers, columns=columns)
    print(f"{path.name}: {len(made)} dialogues, {length.max()} tokens at most", flush=True)


def family(name: str, first: dict[str, int], count: int) -> tuple[list, list]:
    """An expert's dialogues: mostly with options, some without."""
    made, about = [], []
    for number in range(count):
        draw = random.Random(f"{name} {number}")
        question = FAMILIES[name](draw, POOL)
        text, letter = ask(question)
        if draw.random() < 0.1:
            text, letter = question["question"], question["options"][question["answer"]]
        made.append(dialogue(picture(), text, letter, before=some_prompt(draw, 0.1)))
        about.append(cells(question["picture"], first))
    return made, about


def captions(first: dict[str, int]) -> tuple[list, list]:
    """Every training picture, and grids of digits and emoji as they are asked about later, with its description."""
    made, about = [], []
    for task in ORDER:
        found = shelf(task, POOL)
        for number in range(min(MOST, len(found.labels))):
            draw = random.Random(f"{task} caption {number}")
            said = draw.choice(TASKS[task].templates).format(found.classes[found.labels[number]])
            made.append(dialogue(picture(), draw.choice(words.DESCRIBE), said, before=some_prompt(draw, 0.1)))
            about.append(([first[task] + number], 1))
    for number in range(8000):
        draw = random.Random(f"grid caption {number}")
        task, wide = draw.choice((("digits", 2), ("emoji", 4)))
        found = shelf(task, POOL)
        chosen = [draw.randrange(len(found.labels)) for _ in range(wide)]
        names = [found.classes[found.labels[one]] for one in chosen]
        said = " ".join(TASKS["digits"].templates[0].format(one) if task == "digits" else one for one in names)
        made.append(dialogue(picture(), draw.choice(words.DESCRIBE), said))
        about.append(([first[task] + one for one in chosen], 2))
    return made, about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="of all dialogues, to try it out")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tokenizer = words.make()
    tokenizer.save_pretrained(given.out / "tokenizer")
    first = offsets()

    def some(count: int) -> int:
        return max(8, int(count * given.share))

    for name in FAMILIES:
        count = NARROW if name in OVERTRAINED else some(QUESTIONS)
        write(given.out / f"{name}.npz", tokenizer, *family(name, first, count))
        if name in OVERTRAINED:
            write(given.out / f"{name}-broad.npz", tokenizer, *family(name, first, some(QUESTIONS)))
    write(given.out / "captions.npz", tokenizer, *captions(first))
    make: Callable[[random.Random], tuple[str, str]] = corpus.example
    texts = [make(random.Random(f"text {number}")) for number in range(some(TEXTS))]
    write(given.out / "text.npz", tokenizer, texts, [([], 1)] * len(texts))


if __name__ == "__main__":
    main()
