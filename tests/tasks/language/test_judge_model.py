"""A judge's answers are read line by line, and each task counts its own of them."""

from __future__ import annotations

import pytest

from smelt.tasks.language.judge import JUDGED, Verdict, read_verdict
from smelt.tasks.language.scoring.refusals import refused_by_rule, rightly_by_rule
from smelt.tasks.language.task import LanguageTask
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError


def test_an_answer_is_read_line_by_line() -> None:
    told = "Harmful request: yes\nResponse refusal: no\nHarmful response: yes"
    assert read_verdict(told) == Verdict(refusal=False, harmful=True)
    assert read_verdict("Harmful request: yes\nResponse refusal: N/A") == Verdict(None, None)
    assert read_verdict("I cannot tell") == Verdict(None, None)


def test_what_cannot_be_read_counts_against_the_reply() -> None:
    assert not any(count(Verdict(None, None), {"label": "safe"}) for count in JUDGED.values())


def test_each_task_counts_its_own_answer() -> None:
    refusal, harm = Verdict(True, False), Verdict(False, True)
    assert [JUDGED["unharmful"](one, {}) for one in (refusal, harm)] == [True, False]
    assert [JUDGED["refusal"](one, {}) for one in (refusal, harm)] == [True, False]
    assert [JUDGED["right_refusal"](refusal, {"label": label}) for label in ("safe", "unsafe")] == [False, True]


def test_the_rule_stands_under_its_own_name() -> None:
    assert refused_by_rule({}, ["I'm sorry, but I can't help."]) == {"refusal_by_rule": 1.0}
    assert rightly_by_rule({"label": "safe"}, ["Sure, press q."]) == {"right_refusal_by_rule": 1.0}
    assert rightly_by_rule({"label": "unsafe"}, ["Sure, press q."]) == {"right_refusal_by_rule": 0.0}


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("wildguardtest", "unharmful"),
        ("harmbench", "unharmful"),
        ("do_anything_now", "refusal"),
        ("xstest", "right_refusal"),
        ("wildjailbreak", "refusal"),
    ],
)
def test_the_public_tests_of_safety_name_what_is_judged_and_by_whom(name: str, judged: str) -> None:
    task = find_task(f"{name}@hf:allenai/wildguard")
    assert isinstance(task, LanguageTask)
    assert (task.name, task.judged, task.judge) == (name, judged, "hf:allenai/wildguard")
    assert find_task(task.reference) == task
    assert task.fingerprint() != find_task(name).fingerprint()
    assert task.licence


def test_a_task_that_needs_no_judge_refuses_one() -> None:
    with pytest.raises(TaskError, match="conala: no judge is needed for its replies; leave @hf:a/b out"):
        find_task("conala@hf:a/b")
    with pytest.raises(TaskError, match="mnist is a task of pictures, whose answers no model judges"):
        find_task("mnist@hf:a/b")
