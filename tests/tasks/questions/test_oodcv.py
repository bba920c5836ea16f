"""OOD-CV made into a question set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smelt.tasks.questions.oodcv import write_oodcv
from smelt.tasks.questions.task import QuestionTask
from smelt.tasks.task import TaskError
from stand_in_hub.published.uqmerge import save_oodcv


def test_questions_that_count_get_four_different_numbers(tmp_path: Path) -> None:
    found = QuestionTask.load(write_oodcv(*save_oodcv(tmp_path / "files"), tmp_path / "oodcv")).questions("test")
    assert len(found) == 4  # the one answered with yes is left out
    assert all(len(set(one.options)) == 4 for one in found)
    right = [one.options[one.answer or 0] for one in found]
    assert right == ["Zero", "One", "Two", "Zero"]


def test_a_picture_that_is_not_there_is_named(tmp_path: Path) -> None:
    questions, pictures = save_oodcv(tmp_path / "files")
    (pictures / "2.png").unlink()
    with pytest.raises(TaskError, match=r"the picture '2.png' is not there"):
        write_oodcv(questions, pictures, tmp_path / "oodcv")


def test_a_question_of_another_form_is_refused(tmp_path: Path) -> None:
    questions, pictures = save_oodcv(tmp_path / "files")
    questions.write_text(json.dumps([{"answer_type": "number", "text_answer": "many"}]))
    with pytest.raises(TaskError, match="question 0 of those that count is not as expected"):
        write_oodcv(questions, pictures, tmp_path / "oodcv")
