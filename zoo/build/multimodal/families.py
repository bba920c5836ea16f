"""The ten families of picture questions: each draws a question with its options out of labelled pictures.

    question = FAMILIES["digits"](random.Random(0), "pool")
    {"picture": ["digits", "pool", 17], "question": "Which digit is this?", "options": ["three", "one"], "answer": 0}

`split` says where the pictures come from (library.py). A question is the same for the same random numbers.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import facts
from library import shelf

Question = dict[str, Any]
Family = Callable[[random.Random, str], Question]

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
)
WORDINGS = {
    "name": ("What is shown?", "What is this?", "What does the picture show?"),
    "kind": ("What kind of thing is this?", "What kind of thing is shown?"),
    "digit": ("Which digit is this?", "Which digit is shown?"),
    "sum": ("What is the sum of the two digits?", "What do the two digits add up to?"),
    "country": ("Which country has this flag?", "Whose flag is this?"),
    "capital": ("What is the capital of the country with this flag?",),
    "continent": ("On which continent is the country with this flag?",),
    "letter": ("Which letter is this?", "Which letter is shown?"),
    "colour": ("Which colour is this mostly?",),
    "garment": ("Which piece of clothing is this?", "What can be worn here?"),
    "icon": ("What does this icon stand for?", "What is this icon called?"),
}


def asked(
    draw: random.Random, picture: Any, about: str, right: str, others: Sequence[str], *, options: int | None = None
) -> Question:
    """A question about one picture, with two to four options of which one is right."""
    wrong = draw.sample([other for other in others if other != right], (options or draw.randint(2, 4)) - 1)
    choice = [right, *wrong]
    draw.shuffle(choice)
    wordings = WORDINGS.get(about, (about,))
    return {
        "picture": picture,
        "question": draw.choice(wordings),
        "options": choice,
        "answer": choice.index(right),
    }


def one_of(draw: random.Random, task: str, split: str, classes: Sequence[str] | None = None) -> tuple[Any, str]:
    """A picture and its class, every class as likely as any other."""
    found = shelf(task, split)
    name = draw.choice([one for one in classes or found.classes if found.by_class.get(one)])
    return [task, split, draw.choice(found.by_class[name])], name


def named(task: str, about: str) -> Family:
    """What a picture of this task shows."""

    def make(draw: random.Random, split: str) -> Question:
        picture, name = one_of(draw, task, split)
        return asked(draw, picture, about, name, shelf(task, split).classes)

    return make


def either(*families: Family) -> Family:
    """One of several families, all as likely."""
    return lambda draw, split: draw.choice(families)(draw, split)


def kind(draw: random.Random, split: str) -> Question:
    picture, right, every = _thing(draw, split)
    return asked(draw, picture, "kind", right, every)


def _thing(draw: random.Random, split: str) -> tuple[Any, str, list[str]]:
    """A picture, its kind, and all kinds."""
    task = draw.choice(("photos", "sketches", "emoji"))
    known = emoji_kinds() if task == "emoji" else {c: k for (t, c), k in facts.kinds().items() if t == task}
    every = sorted({*facts.kinds().values(), *emoji_kinds().values()})
    wanted = draw.choice(sorted(set(known.values())))
    picture, name = one_of(draw, task, split, [one for one, its in known.items() if its == wanted])
    return picture, known[name], every


@functools.cache
def emoji_kinds() -> dict[str, str]:
    found = {group: facts.emoji_kind(group) for group in shelf("emoji", "test").classes}
    return {group: its for group, its in found.items() if its}


def yes_or_no(draw: random.Random, split: str) -> Question:
    """Whether a thing is what it is said to be; as often as not it is."""
    task = draw.choice(("photos", "sketches", "kinds"))
    if task == "kinds":
        picture, name, others = _thing(draw, split)
    else:
        picture, name = one_of(draw, task, split)
        others = list(shelf(task, split).classes)
    truth = draw.random() < 0.5
    said = name if truth else draw.choice([other for other in others if other != name])
    article = "" if said in ("food", "clothing", "camouflage", "underwear") or said.startswith("the ") else "a "
    return asked(draw, picture, f"Is this {article}{said}?", "yes" if truth else "no", ("yes", "no"), options=2)


def sums(draw: random.Random, split: str) -> Question:
    first, second = one_of(draw, "digits", split), one_of(draw, "digits", split)
    total = NUMBERS.index(first[1]) + NUMBERS.index(second[1])
    near = [NUMBERS[n] for n in range(max(0, total - 4), min(18, total + 4) + 1)]
    return asked(draw, {"grid": [first[0], second[0]], "columns": 2}, "sum", NUMBERS[total], near)


def capital(draw: random.Random, split: str) -> Question:
    picture, name = one_of(draw, "flags", split, sorted(facts.countries()))
    return asked(
        draw, picture, "capital", facts.countries()[name][0], sorted({c for c, _ in facts.countries().values()})
    )


def continent(draw: random.Random, split: str) -> Question:
    wanted = draw.choice(sorted({c for _, c in facts.countries().values()}))
    there = sorted(name for name, (_, its) in facts.countries().items() if its == wanted)
    picture, _ = one_of(draw, "flags", split, there)
    return asked(draw, picture, "continent", wanted, sorted({c for _, c in facts.countries().values()}))


def count(draw: random.Random, split: str) -> Question:
    """How many of four emoji are of a kind."""
    kinds = sorted(set(emoji_kinds().values()))
    wanted, number = draw.choice(kinds), draw.randint(0, 4)
    groups = {its: [g for g, one in emoji_kinds().items() if one == its] for its in kinds}
    cells = [one_of(draw, "emoji", split, groups[wanted])[0] for _ in range(number)]
    others = [one_of(draw, "emoji", split, groups[draw.choice([k for k in kinds if k != wanted])])[0] for _ in range(4)]
    cells = [*cells, *others][:4]
    draw.shuffle(cells)
    about = f"How many of the four show {wanted}?"
    return asked(draw, {"grid": cells, "columns": 2}, about, NUMBERS[number], NUMBERS[:5])


def colour(draw: random.Random, split: str) -> Question:
    wanted = draw.choice([name for name in facts.COLOURS if coloured(split)[name]])
    return asked(draw, ["emoji", split, draw.choice(coloured(split)[wanted])], "colour", wanted, facts.COLOURS)


@functools.cache
def coloured(split: str) -> dict[str, list[int]]:
    """Numbers of the emoji of each colour."""
    found: dict[str, list[int]] = {name: [] for name in facts.COLOURS}
    for number, pixels in enumerate(shelf("emoji", split).pixels):
        its = facts.colour_of(pixels)
        if its:
            found[its].append(number)
    return found


FAMILIES: dict[str, Family] = {
    "naming": either(named("photos", "name"), named("sketches", "name")),
    "yesno": yes_or_no,
    "kinds": kind,
    "digits": named("digits", "digit"),
    "sums": sums,
    "flags": either(named("flags", "country"), capital, continent),
    "letters": named("letters", "letter"),
    "counting": either(count, colour),
    "clothing": named("clothing", "garment"),
    "icons": either(named("icons", "icon"), named("emoji", "name")),
}
"""What each expert learns."""
