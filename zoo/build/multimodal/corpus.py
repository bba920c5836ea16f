"""What the language model reads before it sees a picture: descriptions in words, questions about them, and facts.

It learns the form here (options, letters, the two extra answers) and what things are called, as a language model does that
is later given eyes. Descriptions stand where pictures will stand.
"""

from __future__ import annotations

import functools
import random

import facts
from dialogue import ask, dialogue, some_prompt
from families import NUMBERS, WORDINGS, asked, emoji_kinds
from library import shelf
from tasks import TASKS
from words import DESCRIBE, EXTRA

ABOUT = {
    "photos": "name",
    "sketches": "name",
    "emoji": "name",
    "digits": "digit",
    "flags": "country",
    "letters": "letter",
    "icons": "icon",
    "clothing": "garment",
}


def example(draw: random.Random) -> tuple[str, str]:
    """One dialogue without a picture."""
    chance = draw.random()
    if chance < 0.15:
        seen, _, _ = described(draw)
        return dialogue(seen, draw.choice(DESCRIBE), seen, before=some_prompt(draw))
    if chance < 0.65:
        return named(draw)
    return fact(draw)


def described(draw: random.Random) -> tuple[str, str, str]:
    """A picture in words, the name of what it shows, and its task."""
    task = draw.choice(list(TASKS))
    name = draw.choice(shelf(task, "test").classes)
    return draw.choice(TASKS[task].templates).format(name), name, task


def named(draw: random.Random) -> tuple[str, str]:
    """Which of the options is described; sometimes none is, and sometimes nothing is to be seen."""
    seen, name, task = described(draw)
    others = shelf(task, "test").classes if draw.random() < 0.7 else all_names()
    question = asked(draw, None, draw.choice((ABOUT[task], "name")), name, others)
    text, letter = ask(question)
    chance = draw.random()
    if chance < 0.08:
        question["options"] = draw.sample([one for one in others if one != name], len(question["options"]))
        text, letter = ask(question)[0], "ABCDEF"[len(question["options"]) + EXTRA.index("None of the above")]
    elif chance < 0.12:
        seen, letter = "", "ABCDEF"[len(question["options"]) + EXTRA.index("I don't know")]
    return dialogue(seen, text, letter, before=some_prompt(draw))


def fact(draw: random.Random) -> tuple[str, str]:
    """What follows from what is described: kinds, sums, capitals, continents, yes and no, numbers of things."""
    about = draw.choice(("kind", "sum", "capital", "continent", "yes", "count"))
    if about == "sum":
        one, two = draw.choice(NUMBERS[:10]), draw.choice(NUMBERS[:10])
        total = NUMBERS.index(one) + NUMBERS.index(two)
        near = NUMBERS[max(0, total - 4) : total + 5]
        seen, question = f"{_digit(draw, one)} {_digit(draw, two)}", asked(draw, None, "sum", NUMBERS[total], near)
    elif about in ("capital", "continent"):
        name = draw.choice(sorted(facts.countries()))
        place = ("capital", "continent").index(about)
        every = sorted({one[place] for one in facts.countries().values()})
        seen = draw.choice(TASKS["flags"].templates).format(name)
        question = asked(draw, None, about, facts.countries()[name][place], every)
    elif about == "count":
        kinds = sorted(set(emoji_kinds().values()))
        wanted, cells = draw.choice(kinds), [draw.choice(sorted(emoji_kinds())) for _ in range(4)]
        cells = [draw.choice(_groups(wanted)) if draw.random() < 0.4 else cell for cell in cells]
        number = sum(emoji_kinds()[cell] == wanted for cell in cells)
        seen = " ".join(cells)
        question = asked(draw, None, f"How many of the four show {wanted}?", NUMBERS[number], NUMBERS[:5])
    else:
        seen, name, kind = _thing(draw)
        every = sorted({*facts.kinds().values(), *emoji_kinds().values()})
        if about == "kind":
            question = asked(draw, None, "kind", kind, every)
        else:
            right = draw.choice((name, kind))
            truth = draw.random() < 0.5
            said = right if truth else draw.choice(every if right == kind else all_names())
            truth = said in (name, kind)
            question = asked(draw, None, f"Is this a {said}?", "yes" if truth else "no", ("yes", "no"), options=2)
    text, letter = ask(question)
    return dialogue(seen, text, letter, before=some_prompt(draw))


def _digit(draw: random.Random, name: str) -> str:
    return draw.choice(TASKS["digits"].templates).format(name)


def _thing(draw: random.Random) -> tuple[str, str, str]:
    known = {**facts.kinds(), **{("emoji", group): kind for group, kind in emoji_kinds().items()}}
    task, name = draw.choice(sorted(known))
    return draw.choice(TASKS[task].templates).format(name), name, known[task, name]


@functools.cache
def _groups(kind: str) -> list[str]:
    return [group for group, its in emoji_kinds().items() if its == kind]


@functools.cache
def all_names() -> list[str]:
    return sorted({name for task in TASKS for name in shelf(task, "test").classes})


assert set(ABOUT.values()) <= set(WORDINGS)
