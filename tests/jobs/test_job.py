"""A job's key says what it is; only plain data makes a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smelt.errors import RecipeError
from smelt.jobs.job import Job


def test_equal_jobs_have_equal_keys_whatever_their_names_and_the_order_of_words() -> None:
    one = Job("a.b:c", {"x": 1, "y": {"p": 2, "q": [3]}}, name="first")
    two = Job("a.b:c", {"y": {"q": (3,), "p": 2}, "x": 1}, name="second")
    assert one == two
    assert one.key == two.key
    assert len(one.key) == 64


@pytest.mark.parametrize(("call", "arguments"), [("a.b:d", {"x": 1}), ("a.b:c", {"x": 2}), ("a.b:c", {"x": 1.5})])
def test_another_call_or_another_argument_is_another_job(call: str, arguments: dict[str, Any]) -> None:
    assert Job(call, arguments).key != Job("a.b:c", {"x": 1}).key


def test_a_new_version_of_smelt_computes_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Job("a:b").key
    monkeypatch.setattr("smelt.jobs.job.__version__", "9.9.9")
    assert Job("a:b").key != before


def test_a_job_does_not_change_when_its_arguments_do() -> None:
    words = {"list": [1]}
    job = Job("a:b", words)
    words["list"].append(2)
    assert job.arguments == {"list": [1]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": {"y": [Path("p")]}}, r"an argument of a:b, x\.y\[0\], is a \w*Path; jobs carry plain data"),
        ({"x": float("inf")}, "x, is inf, which JSON cannot carry"),
        ({"x": {1: 2}}, "x, has the key 1; keys of plain data are text"),
        ({"x": {"a"}}, "x, is a set"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        Job("a:b", arguments)


@pytest.mark.parametrize("call", ["square", "a.b", "a:b.c", "a b:c", ""])
def test_a_call_names_a_module_and_a_function(call: str) -> None:
    with pytest.raises(RecipeError, match=r"written package\.module:function"):
        Job(call)
