"""Problems of reasoning-gym with small numbers, each with two or three short steps of working.

reasoning-gym draws the problem and its answer; the working is ours, and its last number is checked against the answer.
"""

from __future__ import annotations

import ast
import math
import operator
import random
import sys
from collections.abc import Callable
from functools import cache

from files import fetch

END = 'Work in short steps and end with "Answer:" and the result.'
SIGNS: dict[type, tuple[str, Callable]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.floordiv),
}


@cache
def gym():
    """reasoning-gym itself. It needs the libraries of its `Requires-Dist` lines (`pip install reasoning-gym==0.1.25`)."""
    sys.path.append(str(fetch.package("reasoning-gym")))
    import reasoning_gym

    return reasoning_gym


def one(family: str, rng: random.Random, **settings) -> dict:
    return gym().create_dataset(family, seed=rng.randrange(1 << 30), size=1, **settings)[0]


def record(kind: str, question: str, steps: list[str], answer: str, source: str) -> dict | None:
    """None where the working would be too long to be decoded in 64 tokens."""
    text = "\n".join([*steps, f"Answer: {answer}"])
    if len(text) > 60:
        return None
    return {"prompt": f"{question}\n{END}", "answer": text, "kind": kind, "source": f"{kind}: {source}"}


def worked(expression: str) -> tuple[list[str], int]:
    """The steps of a sum in Python's order, and its value.

    >>> worked("4 - 1 + 2 * 3")
    (['4 - 1 = 3', '2 * 3 = 6', '3 + 6 = 9'], 9)
    """
    steps: list[str] = []

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        if isinstance(node, ast.Constant):
            return node.value
        left, right = value(node.left), value(node.right)
        sign, apply = SIGNS[type(node.op)]
        steps.append(f"{left} {sign} {right} = {apply(left, right)}")
        return apply(left, right)

    return steps, value(ast.parse(expression, mode="eval").body)


def chain_sum(rng: random.Random) -> dict | None:
    got = one("chain_sum", rng, min_terms=2, max_terms=4, min_digits=1, max_digits=2)
    expression = got["metadata"]["expression"]
    steps, total = worked(expression)
    assert str(total) == got["answer"], got
    ask = rng.choice(["What is {}?", "Work out {}.", "Find the result of {}.", "{} ="])
    return record("sum", ask.format(expression), steps, str(total), expression)


def basic_arithmetic(rng: random.Random) -> dict | None:
    got = one("basic_arithmetic", rng, min_terms=2, max_terms=4, min_digits=1, max_digits=1, allow_negation=False)
    expression = got["metadata"]["expression"]
    if "*" not in expression and "/" not in expression:
        return None  # a chain sum
    steps, value = worked(expression)
    assert str(value) == got["answer"], got
    ask = rng.choice(["Calculate {}.", "What is the value of {}?", "Evaluate {}."])
    return record("arithmetic", ask.format(expression), steps, str(value), expression)


def simple_equations(rng: random.Random) -> dict | None:
    got = one("simple_equations", rng, min_terms=2, max_terms=2, min_value=1, max_value=15)
    equation, name = got["metadata"]["equation"], got["metadata"]["variable"]
    left, right = equation.split(" = ")
    zero, slope = (eval(left, {name: at}) for at in (0, 1))  # the left side is linear in the unknown
    slope, right = slope - zero, int(right)
    if not slope or (right - zero) % slope or max(abs(right), abs(right - zero)) > 150:
        return None
    value = (right - zero) // slope
    assert str(value) == got["answer"], got
    moved = f"{right} - {zero}" if zero >= 0 else f"{right} + {-zero}"
    steps = [f"{slope}*{name} = {moved} = {right - zero}"] if zero else []
    steps += [f"{name} = {right - zero} / {slope} = {value}"] if slope != 1 else []
    ask = rng.choice(["Solve for {1}: {0}", "Find {1} if {0}.", "What is {1} when {0}?"])
    return record("equation", ask.format(equation, name), steps, str(value), equation.replace(name, "x"))


def gcd(rng: random.Random) -> dict | None:
    got = one("gcd", rng, min_value=2, max_value=99)
    large, small = sorted(got["metadata"]["numbers"], reverse=True)
    source, steps = f"{large} {small}", []
    while small:
        steps.append(f"{large} % {small} = {large % small}")
        large, small = small, large % small
    assert str(large) == got["answer"], got
    ask = rng.choice(["Find the greatest common divisor of {} and {}.", "What is the GCD of {} and {}?"])
    return record("gcd", ask.format(*got["metadata"]["numbers"]), steps, got["answer"], source)


def lcm(rng: random.Random) -> dict | None:
    got = one("lcm", rng, min_value=2, max_value=30)
    large, small = sorted(got["metadata"]["numbers"], reverse=True)
    common = math.gcd(large, small)
    steps = [f"GCD = {common}", f"{small} / {common} = {small // common}"]
    steps.append(f"{large} * {small // common} = {large * small // common}")
    ask = rng.choice(["Find the least common multiple of {} and {}.", "What is the LCM of {} and {}?"])
    return record("lcm", ask.format(*got["metadata"]["numbers"]), steps, got["answer"], f"{large} {small}")


def fraction_simplification(rng: random.Random) -> dict | None:
    got = one("fraction_simplification", rng, min_value=1, max_value=20, min_factor=2, max_factor=9, styles=("plain",))
    over, under = got["metadata"]["numerator"], got["metadata"]["denominator"]
    common = math.gcd(over, under)
    if common == 1 or under == common:
        return None
    steps = [f"GCD = {common}", f"{over} / {common} = {over // common}", f"{under} / {common} = {under // common}"]
    ask = rng.choice(["Simplify the fraction {}.", "Write {} in lowest terms.", "Reduce {} as far as you can."])
    return record("fraction", ask.format(f"{over}/{under}"), steps, got["answer"], f"{over}/{under}")


def leg_counting(rng: random.Random) -> dict | None:
    got = one("leg_counting", rng, min_animals=2, max_animals=2, min_instances=1, max_instances=9)
    animals = got["metadata"]["animals"]
    legs = gym().arithmetic.leg_counting.ANIMALS
    if any(legs[name] > 10 for name in animals) or len(animals) != 2:
        return None
    parts = [count * legs[name] for name, count in animals.items()]
    steps = [f"{count} * {legs[name]} = {count * legs[name]}" for name, count in animals.items()]
    steps.append(f"{parts[0]} + {parts[1]} = {sum(parts)}")
    assert str(sum(parts)) == got["answer"], got
    listed = " and ".join(f"{count} {name if count == 1 else many(name)}" for name, count in animals.items())
    ask = rng.choice(["How many legs do {} have in total?", "How many legs are there if you have {}?"])
    return record("legs", ask.format(listed), steps, got["answer"], ", ".join(sorted(listed.split(" and "))))


def many(name: str) -> str:
    if name in ("deer", "sheep", "shrimp", "starfish"):
        return name
    return name[:-1] + "ies" if name.endswith("fly") else name + ("es" if name.endswith(("s", "ch", "sh")) else "s")
