"""Regular expressions that others wrote, matched in time that grows with the text only.

Python's `re` tries one way after another, and a pattern such as `([a-z]+)+X` has more ways than anybody can wait for.
Here a pattern becomes an automaton that is in all its states at once. In: a pattern in Python's grammar, without what
no automaton can do (references back, looking around). Out: whether a text is matched as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeAlias

__all__ = ["LinearPattern", "PatternError"]

_MOST_STATES = 2_000
_MOST_STEPS = 2_000_000
"""Looks at a state's ways out, over all texts: seconds. What was found out once is remembered and costs nothing."""

Test: TypeAlias = Callable[[str], bool]

_CATEGORIES: dict[str, Test] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda letter: letter.isalnum() or letter == "_",
}
_ANCHORS = {"AT_BEGINNING": "first", "AT_BEGINNING_STRING": "first", "AT_END": "last", "AT_END_STRING": "last"}


class PatternError(ValueError):
    """A pattern that is none, or that an automaton of bounded size cannot do."""


class LinearPattern:
    """One pattern. States are numbers: `_ways` lead on by a letter, `_free` without one, `_anchored` at an end only."""

    def __init__(self, pattern: str):
        self._free: list[list[int]] = []
        self._anchored: list[list[tuple[str, int]]] = []
        self._ways: list[list[tuple[Test, int]]] = []
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._accepted: dict[tuple[frozenset[int], str], bool] = {}
        self._steps = 0
        try:
            parsed: Any = import_module("re._parser").parse(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(str(error) or "nested too deep") from None
        if parsed.state.flags & ~re.UNICODE:
            raise PatternError("flags are not taken")
        self._start = self._state()
        self._end = self._sequence(parsed, self._start)
        self._begin = self._closed([self._start], "first")

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        here = self._begin
        for letter in text:
            step = (here, letter)
            if step not in self._known:
                self._known[step] = self._closed(self._after(here, letter))
            here = self._known[step]
            if not here:
                return False
        ending = (here, "last" if text else "both")
        if ending not in self._accepted:
            self._accepted[ending] = self._end in self._closed(*ending)
        return self._accepted[ending]

    def _after(self, here: Iterable[int], letter: str) -> Iterator[int]:
        for state in here:
            for test, target in self._ways[state]:
                self._count()
                if test(letter):
                    yield target

    def _closed(self, states: Iterable[int], place: str = "") -> frozenset[int]:
        """With all states that are reached without a letter, at the first or last place of a text or inside."""
        found = set(states)
        left = list(found)
        while left:
            state = left.pop()
            self._count()
            ways = [*self._free[state], *(to for anchor, to in self._anchored[state] if place in (anchor, "both"))]
            left += [target for target in ways if target not in found]
            found.update(ways)
        return frozenset(found)

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise PatternError("it takes too long to match")

    def _state(self, *before: int) -> int:
        """A new state, reached freely from those before it."""
        if len(self._free) >= _MOST_STATES:
            raise PatternError(f"it has more than {_MOST_STATES:,} states")
        self._free.append([])
        self._anchored.append([])
        self._ways.append([])
        for state in before:
            self._free[state].append(len(self._free) - 1)
        return len(self._free) - 1

    def _sequence(self, parts: Any, at: int) -> int:
        for operation, argument in parts:
            at = self._part(str(operation), argument, at)
        return at

    def _part(self, operation: str, argument: Any, at: int) -> int:
        """The state after a part that begins in the state `at`."""
        if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            after = self._state()
            self._ways[at].append((_test(operation, argument), after))
            return after
        if operation == "AT" and str(argument) in _ANCHORS:
            after = self._state()
            self._anchored[at].append((_ANCHORS[str(argument)], after))
            return after
        if operation == "BRANCH":
            return self._state(*[self._sequence(one, self._state(at)) for one in argument[1]])
        if operation == "SUBPATTERN" and not argument[1] and not argument[2]:
            return self._sequence(argument[3], at)
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(argument[0], argument[1], argument[2], at)
        raise PatternError(f"{operation.lower().replace('_', ' ')} is not taken")

    def _repeat(self, least: int, most: Any, parts: Any, at: int) -> int:
        for _ in range(least):
            at = self._sequence(parts, self._state(at))
        if str(most) == "MAXREPEAT":
            loop = self._state(at)
            self._free[self._sequence(parts, self._state(loop))].append(loop)
            return self._state(loop)
        ends = [at]
        for _ in range(int(most) - least):
            ends.append(self._sequence(parts, self._state(ends[-1])))
        return self._state(*ends)


def _test(operation: str, argument: Any) -> Test:
    """Whether a letter is the one, or among those, that a part of a pattern stands for."""
    if operation == "ANY":
        return lambda letter: letter != "\n"
    if operation == "LITERAL":
        return lambda letter: ord(letter) == argument
    if operation == "NOT_LITERAL":
        return lambda letter: ord(letter) != argument
    negated = str(argument[0][0]) == "NEGATE"
    members = [_member(str(kind), value) for kind, value in argument[negated:]]
    return lambda letter: any(member(letter) for member in members) != negated


def _member(kind: str, value: Any) -> Test:
    if kind == "RANGE":
        return lambda letter: value[0] <= ord(letter) <= value[1]
    if kind == "CATEGORY":
        *_, negation, name = ["", *str(value).split("_")]
        category = _CATEGORIES[name]
        return lambda letter: category(letter) != (negation == "NOT")
    return lambda letter: ord(letter) == value
