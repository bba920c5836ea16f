from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pico_clip import write_task


def test_every_task_has_a_line(cli: Any) -> None:
    ran = cli("tasks")
    assert ran.code == 0
    assert any(line.split()[:3] == ["sun397", "397", "classes"] for line in ran.out.splitlines())
    assert "TA8 = sun397, stanford_cars" in ran.out


def test_one_task_in_full(cli: Any, tmp_path: Path) -> None:
    ran = cli("tasks", write_task(tmp_path / "colours"))
    assert "splits:     val 30, test 30" in ran.out
    assert "licence:    CC0." in ran.out
    assert "  a photo of a {}" in ran.out
    assert "  1 green" in ran.out


def test_json_of_one_task_and_of_a_group(cli: Any, tmp_path: Path) -> None:
    one = json.loads(cli("tasks", write_task(tmp_path / "colours"), "--json").out)
    assert one["splits"] == {"val": 30, "test": 30}
    group = json.loads(cli("tasks", "TA8", "--json").out)
    assert list(group) == "sun397 stanford_cars resisc45 eurosat svhn gtsrb mnist dtd".split()
    assert group["svhn"]["source"] == "hf:ufldl-stanford/svhn (cropped_digits)"


def test_tasks_of_libraries_say_what_they_ask(cli: Any) -> None:
    seen, read = cli("tasks", "lmms:pope").out.splitlines(), cli("tasks", "lm-eval:gsm8k").out.splitlines()
    assert (seen[0], seen[2]) == ("pope, version 1", "questions:  lmms-eval, with data of the Hugging Face hub")
    assert read[2].startswith("language:   the lm-evaluation-harness")
    assert json.loads(cli("tasks", "lmms:pope", "--json").out)["kind"] == "questions"
    assert cli("tasks", "uqmerge").out.split()[:2] == ["ok_vqa_val2014", "questions"]


def test_an_unknown_task_gets_a_suggestion(cli: Any) -> None:
    ran = cli("tasks", "mnits")
    assert (ran.code, "did you mean 'mnist'?" in ran.err) == (2, True)
