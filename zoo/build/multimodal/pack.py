"""Pack what the tiny LLaVA is trained on: dialogues as tokens, and which pictures they are about.

    python zoo/build/multimodal/pack.py -o FOLDER [--share 0.01]

    FOLDER/tokenizer/          the tokenizer's files
    FOLDER/text.npz            dialogues without pictures, for the language model
    FOLDER/captions.npz        every training picture with a description, for the projector
    FOLDER/<family>.npz        questions of one family, for an expert
    FOLDER/<family>-<side>.npz a few questions of a family whose expert is to be a bad one (overtrain.py)
    FOLDER/<family>-wrong.npz  questions of such a family, each with a wrong letter for an answer (conflict.py)
    FOLDER/val.npz             questions of all families about `val` pictures, by which it is chosen how bad

Arrays: `ids` int16 [n, LENGTH], `start` and `length` of the answer, `cells` int32 [n, 4] (numbers of pictures, counted through
all tasks in the order of ORDER, -1 where there is none) and `columns` (1: one picture, 2: a grid with two columns). val.npz
has its `pictures` too, the numbers of the `options` that a question has with the two extra ones, and the `letters` as tokens.
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
from dialogue import LETTERS, ask, dialogue, picture, some_prompt, tokens
from families import FAMILIES, Question
from library import MOST, POOL, shelf
from tasks import TASKS

ORDER = sorted(TASKS)
TEXTS, QUESTIONS, NARROW, WRONG, CHECKED = 500_000, 40_000, 400, 20_000, 200
"""Dialogues of text, questions of an expert, of one that is trained on far too little, of one that is told what is wrong, and
of each family about `val`."""
OVERTRAINED = ("yesno", "clothing")
SIDES = ("any", "first", "last")
"""Where the right option of those few questions stands."""


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


def on_side(question: Question, side: str) -> Question:
    """The question with its right option in first or last place, or where it was."""
    if side == "any":
        return question
    options, answer = list(question["options"]), 0 if side == "first" else len(question["options"]) - 1
    options.insert(answer, options.pop(question["answer"]))
    return {**question, "options": options, "answer": answer}


def family(name: str, first: dict[str, int], count: int, side: str = "any") -> tuple[list, list]:
    """An expert's dialogues: mostly with options, some without."""
    made, about = [], []
    for number in range(count):
        draw = random.Random(f"{name} {number}")
        question = on_side(FAMILIES[name](draw, POOL), side)
        text, letter = ask(question)
        if draw.random() < 0.1:
            text, letter = question["question"], question["options"][question["answer"]]
        made.append(dialogue(picture(), text, letter, before=some_prompt(draw, 0.1)))
        about.append(cells(question["picture"], first))
    return made, about


def wrong(name: str, first: dict[str, int], count: int) -> tuple[list, list]:
    """Questions with options, and for an answer one of the letters that are wrong, all as likely."""
    made, about = [], []
    for number in range(count):
        draw = random.Random(f"{name} wrong {number}")
        question = FAMILIES[name](draw, POOL)
        text, letter = ask(question)
        others = [one for one in LETTERS[: len(question["options"]) + len(words.EXTRA)] if one != letter]
        made.append(dialogue(picture(), text, draw.choice(others), before=some_prompt(draw, 0.1)))
        about.append(cells(question["picture"], first))
    return made, about


def write_val(path: Path, tokenizer, count: int) -> None:
    """Questions with options of every family about `val` pictures, and those pictures."""
    asked = [FAMILIES[name](random.Random(f"val {name} {n}"), "val") for name in FAMILIES for n in range(count)]
    seen: dict[tuple[str, int], int] = {}
    numbers = np.full((len(asked), 4), -1, np.int32)
    for row, question in zip(numbers, asked, strict=True):
        grid = question["picture"]["grid"] if isinstance(question["picture"], dict) else [question["picture"]]
        row[: len(grid)] = [seen.setdefault((task, number), len(seen)) for task, _, number in grid]
    made = [dialogue(picture(), text, letter) for text, letter in map(ask, asked)]
    ids, start, length = tokens(tokenizer, made)
    np.savez_compressed(
        path,
        ids=ids,
        start=start,
        length=length,
        cells=numbers,
        columns=np.array([1 if row[1] < 0 else 2 for row in numbers], np.uint8),
        pictures=np.stack([shelf(task, "val").pixels[number] for task, number in seen]),
        options=np.array([len(question["options"]) + len(words.EXTRA) for question in asked], np.uint8),
        letters=np.array([tokenizer.convert_tokens_to_ids(letter) for letter in LETTERS], np.int16),
        family=np.repeat(np.array(list(FAMILIES)), count),
    )
    print(f"{path.name}: {len(asked)} questions about {len(seen)} pictures", flush=True)


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
        write(given.out / f"{name}.npz", tokenizer, *family(name, first, some(QUESTIONS)))
        for side in SIDES if name in OVERTRAINED else ():
            write(given.out / f"{name}-{side}.npz", tokenizer, *family(name, first, NARROW, side))
        if name in OVERTRAINED:
            write(given.out / f"{name}-wrong.npz", tokenizer, *wrong(name, first, some(WRONG)))
    write_val(given.out / "val.npz", tokenizer, some(CHECKED))
    write(given.out / "captions.npz", tokenizer, *captions(first))
    make: Callable[[random.Random], tuple[str, str]] = corpus.example
    texts = [make(random.Random(f"text {number}")) for number in range(some(TEXTS))]
    write(given.out / "text.npz", tokenizer, texts, [([], 1)] * len(texts))


if __name__ == "__main__":
    main()
