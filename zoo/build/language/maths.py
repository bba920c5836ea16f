"""Maths: sums, equations and stories with short working.

    python zoo/build/language/maths.py

Test problems are drawn first and never enter the training set. `maths-val` has forms that are neither trained on nor
tested: sequences, missing numbers, units, numbers in words.
"""

from __future__ import annotations

import random

import stories
import sums
from records import Parts, draw, endless, mixed, write

FAMILIES = {  # how many for training, how many for the test
    sums.chain_sum: (20_000, 80),
    sums.basic_arithmetic: (14_000, 60),
    sums.simple_equations: (6_000, 50),
    sums.gcd: (3_400, 30),
    sums.lcm: (320, 10),
    sums.fraction_simplification: (800, 20),
    sums.leg_counting: (10_000, 50),
}
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
UNITS = [
    ("minutes", "hours", 60), ("hours", "days", 24), ("days", "weeks", 7), ("months", "years", 12), ("seconds", "minutes", 60),
    ("centimetres", "metres", 100), ("eggs", "dozens of eggs", 12), ("millimetres", "centimetres", 10), ("wheels", "cars", 4), ("sides", "triangles", 3),
]  # fmt: skip


def build() -> Parts:
    sums.gym()  # the path to it
    seen: set[str] = set()
    test = [record for make, (_, count) in FAMILIES.items() for record in draw(endless(make, 1), count, seen=seen)]
    told = draw(endless(stories.own(stories.TEST), 2), 140, seen=seen)
    told += draw(endless(stories.symbolic(range(80, 100)), 2), 60, seen=seen)
    val = [record for make in (sequence, missing, unit, spelled) for record in draw(endless(make, 3), 30, seen=seen)]
    full = [record for make, (count, _) in FAMILIES.items() for record in draw(endless(make, 4), count, seen=seen)]
    full += draw(endless(stories.own(stories.TRAIN), 4), 12_000, seen=seen)
    full += draw(endless(stories.symbolic(range(80)), 4), 12_000, seen=seen)
    full = mixed(full, seed=5)
    return {"full": full, "train": full[:1000], "maths/test": test, "maths-stories/test": told, "maths-val/val": val}


def sequence(rng: random.Random) -> dict | None:
    start, step = rng.randint(1, 40), rng.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    terms = [start + step * number for number in range(5)]
    shown = ", ".join(map(str, terms[:4]))
    steps = [f"{terms[1]} - {terms[0]} = {step}", f"{terms[3]} + {step} = {terms[4]}"]
    return sums.record("sequence", f"What number comes next: {shown}, ...?", steps, str(terms[4]), shown)


def missing(rng: random.Random) -> dict | None:
    total, part = rng.randint(20, 99), rng.randint(3, 60)
    if part >= total:
        return None
    shown = f"{part} + ? = {total}"
    steps = [f"{total} - {part} = {total - part}"]
    return sums.record("missing", f"Which number is missing: {shown}", steps, str(total - part), shown)


def unit(rng: random.Random) -> dict | None:
    small, large, size = rng.choice(UNITS)
    count = rng.randint(2, 9)
    steps = [f"{count} * {size} = {count * size}"]
    return sums.record(
        "unit", f"How many {small} are there in {count} {large}?", steps, str(count * size), f"{count} {large}"
    )


def spelled(rng: random.Random) -> dict | None:
    a, b = rng.randint(3, 20), rng.randint(3, 20)
    word, sign, value = rng.choice([("plus", "+", a + b), ("minus", "-", a - b), ("times", "*", a * b)])
    if value < 0 or value > 150:
        return None
    shown = f"{WORDS[a]} {word} {WORDS[b]}"
    return sums.record("spelled", f"What is {shown}? Give a number.", [f"{a} {sign} {b} = {value}"], str(value), shown)


def main() -> None:
    write("maths", build())


if __name__ == "__main__":
    main()
