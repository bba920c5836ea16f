"""Word problems: our own short ones (other templates for training and for the test), and gsm_symbolic's.

The templates of gsm_symbolic with numbers 0 to 79 are for training, those with 80 to 99 for the test. Its long working
is cut to its equations; a story whose equations do not lead to its answer, or are too long, is left out.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction

from sums import gym, record, worked

NAMES = "Anna Ben Carla David Emma Felix Grace Hugo Ida Jack Karen Leo Mia Noah Olga Paul Rosa Sam Tina Victor".split()
THINGS = "apples pens stamps coins books eggs cards shells buttons marbles cookies stickers beads nuts photos".split()
PLACES = "boxes bags rows baskets shelves jars".split()

TRAIN = [
    ("{n} has {a} {t} and buys {b} more. How many {t} does {n} have now?", "a + b"),
    ("{n} had {a} {t} and gave away {b}. How many {t} are left?", "a - b"),
    ("{n} has {a} {t}. {m} has {b} more than {n}. How many {t} does {m} have?", "a + b"),
    ("{n} has {a} {t}. {m} has {b} fewer than {n}. How many {t} does {m} have?", "a - b"),
    ("There are {c} {p} with {d} {t} in each. How many {t} are there?", "c * d"),
    ("{n} puts {c} {t} into each of {d} {p}. How many {t} does {n} need?", "c * d"),
    ("{n} found {a} {t} in the morning and {b} in the evening. How many {t} did {n} find?", "a + b"),
    ("{n} and {m} have {a} {t} together. {n} has {b} of them. How many does {m} have?", "a - b"),
    ("{n} has {a} {t}, buys {b} and then loses {d}. How many {t} does {n} have at the end?", "a + b - d"),
    ("{n} buys {c} {p} of {d} {t} and finds {b} more. How many {t} does {n} have?", "c * d + b"),
    ("{n} has {c} {p} of {d} {t} and gives {c} {t} away. How many {t} are left?", "c * d - c"),
    ("{n} has {a} {t}. {m} has {b}. How many {t} do they have together?", "a + b"),
    ("One of the {t} costs {c} coins. What do {d} of them cost?", "c * d"),
    ("{n} shares {e} {t} equally among {c} friends. How many {t} does each friend get?", "e / c"),
    ("{n} packs {e} {t} into {p} of {c}. How many {p} does {n} need?", "e / c"),
    ("{n} reads {c} pages a day. How many pages does {n} read in {d} days?", "c * d"),
    ("A bus has {a} people. {b} get off and {d} get on. How many people are on the bus?", "a - b + d"),
    ("{n} is {a} years old. {m} is {b} years younger. How old is {m}?", "a - b"),
    ("{n} had some {t}, then got {b} more and has {a} now. How many {t} were there at first?", "a - b"),
    ("{n} walks {c} km on each of {d} days and {b} km on the last day. How far does {n} walk?", "c * d + b"),
    ("{n} has twice as many {t} as {m}. {m} has {a}. How many {t} does {n} have?", "2 * a"),
    ("There are {a} red, {b} blue and {d} green {t}. How many {t} are there?", "a + b + d"),
    ("{n} wants {a} {t} and has {b}. How many more does {n} need?", "a - b"),
    ("{n} sells {c} {t} for {d} coins each and pays {c} coins for the stall. How many coins remain?", "c * d - c"),
]
TEST = [
    ("A shop had {a} {t} on Monday. On Tuesday it sold {b} of them. How many {t} stayed in the shop?", "a - b"),
    ("{n} collected {a} {t} last year and {b} this year. What is the total?", "a + b"),
    ("A teacher hands {c} {t} to every one of {d} pupils. How many {t} does she hand out?", "c * d"),
    ("{e} {t} are laid out in {c} equal rows. How many {t} are in one row?", "e / c"),
    ("A farmer fills {c} {p} with {d} {t} each, and {b} {t} do not fit. How many {t} has the farmer?", "c * d + b"),
    ("{n} saved {a} coins, earned {b} more and spent {d}. How many coins does {n} hold?", "a + b - d"),
    (
        "A train carried {a} passengers; {b} left at the first stop and {d} at the second. How many remained?",
        "a - b - d",
    ),
    ("Tickets cost {c} coins. How much does a family of {d} pay?", "c * d"),
    ("{n} counted {a} birds and {m} counted {b}. How many more birds did {n} count than {m}?", "a - b"),
    ("A tank holds {a} litres. It loses {c} litres in each of {d} hours. How many litres are left?", "a - c * d"),
]


def own(templates: list[tuple[str, str]]):
    """A maker of stories: numbers below 100, and never a negative result."""

    def make(rng: random.Random) -> dict | None:
        number = rng.randrange(len(templates))
        text, expression = templates[number]
        c, d = rng.randint(2, 9), rng.randint(2, 9)
        values = {"a": rng.randint(12, 99), "b": rng.randint(2, 60), "c": c, "d": d, "e": c * rng.randint(2, 12)}
        filled = re.sub("[a-e]", lambda letter: str(values[letter[0]]), expression)
        steps, value = worked(filled)
        n, m = rng.sample(NAMES, 2)
        question = text.format(n=n, m=m, t=rng.choice(THINGS), p=rng.choice(PLACES), **values)
        return record("story", question, steps, str(value), question) if value >= 0 else None

    return make


EQUATION = re.compile(r"(?<![\w.])([\d($][\d\s.,+\-*/×÷x()$%]*?[+\-*/×÷x][\d\s.,+\-*/×÷x()$%]*?)=\s*\$?(-?[\d.,]*\d)")
UNIT = re.compile(r"(?<=\d)\s*[a-zA-Z /]+?(?=\s*[-+*/=×)]|$)", re.MULTILINE)


def equations(working: str) -> list[str]:
    """The equations of a long working, without words and units; none where one of them is not true.

    >>> equations("He answers 160-48=112 mails a day, in 5 days 112 mails * 5 days = 560 mails")
    ['160 - 48 = 112', '112 * 5 = 560']
    """
    found = []
    for left, right in EQUATION.findall(UNIT.sub("", working)):
        left = re.sub(r"[$,\s]", "", left).translate(str.maketrans("×÷x", "*/*"))
        if re.fullmatch(r"\d+(\.\d+)?([-+*/]\d+(\.\d+)?)+", left):
            right = right.replace(",", "").removesuffix(".0")
            exact = eval(re.sub(r"\d+(\.\d+)?", lambda number: f"Fraction('{number[0]}')", left))
            if exact != Fraction(right):
                return []  # a rounded number: the story has no exact answer
            spaced = re.sub("([-+*/])", r" \1 ", left)
            found.append(f"{spaced} = {right}".replace(".0 ", " "))
    return found


def symbolic(numbers: range):
    """A maker of gsm_symbolic's stories from the templates of these numbers."""
    from reasoning_gym.arithmetic.gsm_symbolic import generators_00_49, generators_50_99
    from reasoning_gym.arithmetic.gsm_symbolic.gsm_symbolic import tasks_ok

    chosen = [number for number in tasks_ok if number in numbers]

    def make(rng: random.Random) -> dict | None:
        number = rng.choice(chosen)
        generate = getattr(generators_00_49 if number < 50 else generators_50_99, f"generate_{number}")
        got = generate(random.Random(rng.randrange(1 << 30)), 1.0)
        steps = equations(got["metadata"]["answer_cot"] if "metadata" in got else got["answer_cot"])
        if not steps or steps[-1].split(" = ")[1] != got["answer"]:
            return None
        return record(f"gsm-{number}", got["question"], steps, got["answer"], got["question"])

    gym()
    return make
