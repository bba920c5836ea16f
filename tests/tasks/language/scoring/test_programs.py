"""Answers to coding tasks: printed values are compared, gaps and functions are run in the sandbox."""

from __future__ import annotations

import pytest

from smelt.tasks.language.scoring import programs

SHOUT = {"answer": "upper", "code": "print(repr('ape'.____()))", "printed": "'APE'"}
DOUBLE = {
    "start": 'import math\n\ndef double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-1) == -2\n",
}


@pytest.mark.parametrize("reply", ["[1, 2]", "[1,2]", "`[1, 2]`", "```python\n[1, 2]\n```", "It prints: `[1, 2]`."])
def test_a_printed_value_counts_in_any_spacing_and_frame(reply: str) -> None:
    assert programs.printed({"answer": "[1, 2]"}, [reply]) == {"exact_match": 1.0}


@pytest.mark.parametrize("reply", ["(1, 2)", "[1, 2, 3]", "[1.0, 2]x", "sorted([2, 1])", ""])
def test_another_value_or_an_echo_of_the_question_does_not(reply: str) -> None:
    assert programs.printed({"answer": "[1, 2]"}, [reply]) == {"exact_match": 0.0}


def test_one_is_not_true() -> None:
    assert programs.printed({"answer": "1"}, ["True"]) == {"exact_match": 0.0}


def test_a_gap_takes_any_name_that_prints_the_same() -> None:
    twin = {**SHOUT, "answer": "casefold", "code": "print(repr('ape'.____()))", "printed": "'ape'"}
    assert programs.printed(SHOUT, ["upper"]) == {"exact_match": 1.0}
    assert programs.printed(twin, ["lower"]) == {"exact_match": 1.0}
    assert programs.printed(twin, ["upper"]) == {"exact_match": 0.0}


@pytest.mark.parametrize(
    "reply",
    [
        "    return 2 * x",
        "return 2 * x",
        "    y = x\n    return x + y\n\nThis adds x to itself.",
        "```python\ndef double(x):\n    return x * 2\n```",
    ],
)
def test_a_body_or_the_whole_function_passes(reply: str) -> None:
    assert programs.solved(DOUBLE, [reply]) == {"pass@1": 1.0}


@pytest.mark.parametrize("reply", ["    return x", "    return 2 * (", "    print('passed')\n    raise SystemExit", ""])
def test_a_wrong_or_broken_body_fails(reply: str) -> None:
    assert programs.solved(DOUBLE, [reply]) == {"pass@1": 0.0}


def test_code_that_never_ends_is_stopped_and_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_SECONDS", 0.5)
    assert programs.solved(DOUBLE, ["    while True:\n        pass"]) == {"pass@1": 0.0}
