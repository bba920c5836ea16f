"""The zoo's language data of maths, coding and safety keep what their READMEs say."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import smelt_zoo
from smelt.tasks.language.scoring import numbers, programs, refusals

HOME = smelt_zoo.language()["maths"].parent
BUILD = Path(__file__).parents[2] / "zoo" / "build" / "language"
SCORES = {
    "maths/train": numbers.score, "maths/test": numbers.score,
    "maths-stories/test": numbers.score, "maths-val/val": numbers.score,
    "coding/test": programs.printed, "coding-val/val": programs.printed,
    "safety/train": refusals.judged, "safety/test": refusals.refused,
    "safety-benign/test": refusals.answered, "safety-val/val": refusals.judged,
}  # fmt: skip
COUNTS = {
    "maths/train": 1000, "maths/test": 300, "maths-stories/test": 200, "maths-val/val": 120,
    "coding/train": 1000, "coding/test": 250, "coding-humaneval/test": 164, "coding-val/val": 120,
    "safety/train": 1000, "safety/test": 200, "safety-benign/test": 200, "safety-val/val": 120,
}  # fmt: skip


def records(name: str) -> list[dict[str, Any]]:
    with gzip.open(HOME / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", COUNTS)
def test_every_split_has_its_questions_none_of_them_twice(name: str) -> None:
    found = records(name)
    assert len(found) == COUNTS[name] == len({one["prompt"] for one in found})
    assert all(one["prompt"].strip() and one["answer"].strip() for one in found)
    assert all(one["answer"] == one["choices"][one["label"]] for one in found if "choices" in one)


@pytest.mark.parametrize("name", SCORES)
def test_the_reference_answer_is_right(name: str) -> None:
    wrong = [one for one in records(name) if set(SCORES[name](one, [one["answer"]]).values()) != {1.0}]
    assert not wrong


@pytest.mark.parametrize("domain", ["maths", "coding", "safety"])
def test_no_question_and_no_module_is_in_two_parts(domain: str) -> None:
    parts: dict[str, set[str]] = {"train": set(), "val": set(), "test": set()}
    for name in COUNTS:
        if name.startswith(domain):
            for one in records(name):
                parts[name.split("/")[1]] |= {one["prompt"], f"module {one.get('module', one['prompt'])}"}
    assert not parts["train"] & parts["test"]
    assert not parts["train"] & parts["val"]
    assert not parts["val"] & parts["test"]


def test_stories_of_the_test_come_from_templates_that_are_not_trained_on() -> None:
    def templates(name: str) -> set[str]:
        return {one["kind"] for one in records(name) if one["kind"].startswith("gsm")}

    assert templates("maths-stories/test")
    assert templates("maths/train")
    assert not templates("maths-stories/test") & templates("maths/train")


def test_kinds_are_mixed_as_the_readme_counts_them() -> None:
    kinds = Counter(one["kind"] for one in records("coding/test"))
    assert kinds == {"doctest": 120, "expression": 35, "expression-new": 35, "gap": 30, "gap-new": 30}
    assert Counter(one["kind"] == "harmful" for one in records("safety-val/val")) == {True: 60, False: 60}


def test_some_solutions_of_humaneval_pass_and_an_empty_body_does_not() -> None:
    some = records("coding-humaneval/test")[:4]
    assert all(programs.passes(one, one["answer"]) for one in some)
    assert not any(programs.passes(one, "    pass") for one in some)


def test_the_examples_in_the_build_scripts_are_true() -> None:
    command = [sys.executable, "-m", "doctest", "sums.py", "stories.py"]
    ran = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
