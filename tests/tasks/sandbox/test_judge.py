"""Tests run in the judge's process, programs in theirs; plain data cross between them."""

from __future__ import annotations

import pytest

from smelt.tasks.sandbox.execution import judge, names_meant


def passes(program: str, tests: str, **words: object) -> bool:
    return judge(program, tests, **words).status == "ok"  # type: ignore[arg-type]


def test_tests_pass_or_fail_and_the_judge_says_which() -> None:
    tests = "assert double(2) == 4\nassert double('ab') == 'abab', 'texts too'"
    assert judge("def double(x): return x * 2", tests).status == "ok"
    outcome = judge("def double(x): return 4", tests)
    assert outcome.status == "error"
    assert "AssertionError: texts too" in outcome.stderr
    assert "KeyError" in judge("def double(x): return {}[x]", tests).stderr


VALUES = (
    "None, True, 0, -7, 1 << 20_000, 0.1, -0.0, float('inf'), 1j, 'é\\ud800', b'\\0', bytearray(b'x'), range(1, 9, 2)"
)
NESTED = "[1, (2, [3])], {'a': {1: (None,)}}, {1, 2}, frozenset({(1, 2)}), {(1, 2): [3]}, [], (), {}, set(), int, str"


@pytest.mark.parametrize("values", [VALUES, NESTED])
def test_plain_values_cross_both_ways_unchanged(values: str) -> None:
    tests = (
        f"for value in [{values}]:\n    back = same(value)\n    assert back == value and type(back) is type(value)\n"
    )
    assert passes("def same(x): return x", tests)
    assert passes("def same(x): return x", "nan = same(float('nan'))\nassert nan != nan")
    assert passes("def same(x): return x", "assert str(same(-0.0)) == '-0.0'")


def test_numbers_of_the_standard_library_cross() -> None:
    imports, value = "from fractions import Fraction\nfrom decimal import Decimal\n", "(Fraction(1, 3), Decimal('0.3'))"
    assert passes(f"{imports}def third(): return {value}", f"{imports}assert third() == {value}")


def test_kinds_of_plain_values_cross_as_plain_values() -> None:
    program = (
        "from collections import Counter, OrderedDict, defaultdict, namedtuple\nfrom enum import IntEnum\n"
        "Point = namedtuple('Point', 'x y')\nColour = IntEnum('Colour', 'red green')\n"
        "def some(): return Counter('aab'), OrderedDict(a=1), defaultdict(int, b=2), Point(1, 2), Colour.green"
    )
    assert passes(program, "assert some() == ({'a': 2, 'b': 1}, {'a': 1}, {'b': 2}, (1, 2), 2)")


def test_what_was_changed_there_changes_here() -> None:
    program = "def change(a, b, c, d, e):\n a.sort(); b['x'] = 1; c.add(9); d += b'!'"
    tests = "a, b, c, d, e = [2, 1], {}, {1}, bytearray(b'?'), [5]\nkept = a\nchange(a, b, c, d, e)\n"
    assert passes(program, f"{tests}assert (kept, b, c, d, e) == ([1, 2], {{'x': 1}}, {{1, 9}}, b'?!', [5])")


def test_exceptions_are_those_of_python() -> None:
    program = "class Own(ValueError): pass\ndef f(x):\n    if x: raise Own('told')\n    return b'\\xff'.decode()"
    tests = "try: f(1)\nexcept ValueError as error: assert str(error) == 'told'\nelse: assert False\n"
    assert passes(program, tests)
    assert not passes(program, "try: f(0)\nexcept KeyError: pass")


def test_objects_stay_with_the_program_and_can_be_used() -> None:
    program = """
class Pair:
    def __init__(self, a, b): self.a, self.b, self.more = a, b, None
    def swap(self): return Pair(self.b, self.a)
    def __len__(self): return 2
    def __getitem__(self, at): return (self.a, self.b)[at]
    def __str__(self): return f'{self.a} and {self.b}'
def longest(pairs): return max(pairs, key=lambda pair: pair.b - pair.a)
def count(n): yield from range(n)
def adder(n): return lambda x: x + n
def same(x): return x
"""
    tests = """
pairs = [Pair(1, 5), Pair(2, 3)]
assert longest(pairs).b == 5 and longest(pairs) is pairs[0]
assert pairs[0].swap().a == 5 and len(pairs[0]) == 2 and pairs[0][1] == 5 and str(pairs[1]) == '2 and 3'
pairs[0].more = pairs[1]
assert pairs[0].more is pairs[1] and same(pairs) == pairs
assert list(count(3)) == [0, 1, 2] and next(count(1)) == 0 and sum(count(5)) == 10
assert adder(2)(3) == 5 and 2 in count(3) and bool(pairs[0])
assert Pair(1, 5) != Pair(1, 5) and count(2) != [0, 1]
try: pairs[0].none
except AttributeError: pass
else: assert False
"""
    outcome = judge(program, tests)
    assert outcome.status == "ok", outcome.stderr


def test_what_cannot_cross_is_named() -> None:
    outcome = judge("def twice(f, x): return f(f(x))", "assert twice(lambda x: x + 1, 0) == 2")
    assert outcome.status == "error"
    assert "TypeError: a function cannot be given to a program in a sandbox: it is no plain data" in outcome.stderr


def test_code_of_the_task_comes_first_and_is_not_the_program_s() -> None:
    given = "def helper(x): return x + 1\ndef f(x): pass\n"
    assert passes("def helper(x): return 0\ndef f(x): return 2", "assert f(1) == helper(1)", given=given, names=["f"])
    assert not passes(
        "def helper(x): return 0\ndef f(x): return 0", "assert f(1) == helper(1)", given=given, names=["f"]
    )


def test_a_function_may_be_called_as_one_of_python() -> None:
    assert passes("def sum(a, b): return a + b", "assert sum(10, 15) == 25")
    assert not passes("def f(x): return x\ndef abs(x): return 0\ndef sorted(x): return [1]", "assert abs(f(3)) == 0")


def test_names_of_the_program_are_those_that_tests_do_not_define() -> None:
    tests = "import math\nx = 1\ndef check(candidate):\n    y = other(x)\n    assert len(y) == math.pi\ncheck(f)\n"
    assert names_meant(tests) == (["f", "other"], [])
    assert names_meant("assert size((1,)) == sys.getsizeof((1,))") == (["size"], ["sys"])
    assert names_meant("assert bisect([1], 2) == 1") == (["bisect"], [])
    assert names_meant("assert f(1) ==") == ([], [])


def test_names_that_the_program_does_not_have_are_unknown() -> None:
    assert passes("MOST = [3]\ndef f(x): return x", "assert f(MOST) == MOST == [3]")
    for tests in ("[ANSWER]", "g", "f(1); assert g(1) == 1"):
        assert "NameError" in judge("def f(x): return x", tests).stderr
    gone = judge("def f(x): return x\ndel f", "assert f(1) is None", given="def f(x): pass\n", names=["f"])
    assert gone.status == "error"


def test_tests_that_leave_have_not_passed() -> None:
    assert not passes("def f(x): return 2", "import sys; sys.exit(0)\nassert f(1) == 2")
    assert not passes("def f(x): return 2", "assert f(1) == 2 and")


def test_tests_have_limits_too() -> None:
    assert judge("def f(x): return 1", "while f(1): pass", seconds=1).status == "timeout"
    assert judge("def f(x): return 1", "open('/tmp/smelt-judge', 'w')").status == "error"


def test_a_program_that_does_not_load_has_not_passed() -> None:
    outcome = judge("def f(x): return 1\nraise ValueError('at once')", "assert f(1) == 1")
    assert outcome.status == "error"
    assert "ValueError: at once" in outcome.stderr


def test_limits_of_the_program_are_told_as_such() -> None:
    assert judge("def f(x):\n while True: pass", "f(1)", seconds=0.5).status == "timeout"
    assert judge("def f(x): return bytearray(1 << 30)", "f(1)").status == "memory"
    assert judge("def f(x):\n while True: print('x' * 99_999)", "f(1)", seconds=60).status == "output"
