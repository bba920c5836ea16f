"""The frame that the loops share: what is named, and what is told when a run has ended."""

from __future__ import annotations

import pytest

from smelt.errors import RecipeError
from smelt.suites.plan import chosen


def test_what_is_named_comes_in_the_suites_own_order() -> None:
    assert chosen("task", ["c", "a"], ["a", "b", "c"]) == ["a", "c"]
    assert chosen("task", None, ["a", "b"]) == ["a", "b"]
    assert chosen("task", [], ["a", "b"]) == []


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"no task of the suite named 'digit' \(did you mean 'digits'\?\)"):
        chosen("task", ["digit"], ["digits"])
