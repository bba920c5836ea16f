"""A question set is a folder; what is wrong with it is named at once, with its line."""

import pytest

from question_sets import question, write_set
from smelt.tasks.questions.records import LETTERS, prompt_of
from smelt.tasks.questions.task import QuestionTask
from smelt.tasks.registry import find_task, find_tasks, picture_task
from smelt.tasks.task import TaskError


def test_a_folder_is_read_and_found(tmp_path):
    folder = write_set(tmp_path / "colours", [question(0), question(1)])
    task = find_task(folder)
    assert isinstance(task, QuestionTask)
    assert (task.name, task.version, task.title, task.splits) == ("colours", 1, "Colours", ("test",))
    assert (task.folder, task.reference, task.licence) == (folder, str(folder), "CC0-1.0")
    assert task.count("test") == 2
    assert find_tasks([task, folder / "questions.yaml"]) == [task]
    assert find_task(folder).questions("test")[1].line == 2


def test_every_fault_of_the_yaml_is_named_at_once(tmp_path):
    folder = write_set(tmp_path / "colours", [question(0)], version=0, titel="x", extra=["a", "b", "c"])
    with pytest.raises(TaskError) as error:
        QuestionTask.load(folder)
    for part in ("version: Input should be greater", "did you mean 'title'?", "extra: are at most 2 different options"):
        assert part in str(error.value)
    with pytest.raises(TaskError, match="splits is missing"):
        QuestionTask.parse({"name": "x"}, folder=tmp_path)
    with pytest.raises(TaskError, match=r"no split named 'val' \(there is: test\)"):
        QuestionTask.load(write_set(tmp_path / "other", [question(0)])).check_split("val")


FAULTS = {
    "has 1 option; a question has 2 to 4": {"options": ["cat"], "answer": 0},
    "has 5 options; a question has 2 to 4": {"options": list("abcde"), "answer": 0},
    "its answer is 2; it is the number of an option, 0 to 1, or null": {"options": ["cat", "dog"], "answer": 2},
    "its answer is True": {"options": ["cat", "dog"], "answer": True},
    "the option 'cat' stands there twice": {"options": ["cat", "cat"], "answer": 0},
    'the option "I don\'t know" stands there twice': {"options": ["cat", "I don't know"], "answer": 0},
    "has no options: what is answered freely": {"options": None},
    "its options are a list of texts": {"options": ["cat", 3], "answer": 0},
    "the picture 'pink.png' is not there": {"picture": "pink.png"},
    "its picture is a file's name, [task, split, number] or": {"picture": ["photos", "test"]},
    "its picture is a file's name": {"picture": {"grid": [], "columns": 2}},
    "its question is a text": {"question": " "},
    "its hint is a text": {"hint": 3},
    "no word of a question named 'anser' (did you mean 'answer'?)": {"anser": 1},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_record_is_named_with_its_line(tmp_path, fault):
    task = QuestionTask.load(write_set(tmp_path / "colours", [question(0), question(1), question(2, **FAULTS[fault])]))
    with pytest.raises(TaskError) as error:
        task.questions("test")
    assert "test.jsonl.gz: line 3: " + fault in str(error.value)


def test_faults_of_several_lines_are_told_together_and_torn_lines_by_their_number(tmp_path):
    bad = question(0, options=["cat"], answer=0)
    with pytest.raises(TaskError, match=r"(?s)- line 1: has 1 option.*- line 3: has 1 option"):
        QuestionTask.load(write_set(tmp_path / "a", [bad, question(1), bad])).questions("test")
    from smelt.errors import CorruptFile

    with pytest.raises(CorruptFile, match="line 2: not readable as JSON"):
        QuestionTask.load(write_set(tmp_path / "b", [question(0), '{"picture"'])).questions("test")
    with pytest.raises(TaskError, match="b/test: holds no examples"):
        QuestionTask.load(write_set(tmp_path / "b", [])).questions("test")


def test_the_prompt_is_hint_question_options_and_instruction(tmp_path):
    """U13: the two extra answers come last."""
    records = [
        question(0, question="What is it?", options=["cat", "dog"], hint="Look well."),
        question(0, question="And this?", options=["one", "two", "three", "four"]),
    ]
    first, second = QuestionTask.load(write_set(tmp_path / "colours", records)).questions("test")
    assert prompt_of(first) == (
        "Look well.\nWhat is it?\nA. cat\nB. dog\nC. I don't know\nD. None of the above\n"
        "Reply with the letter of the right option only."
    )
    assert prompt_of(second, (), "Go.") == "And this?\nA. one\nB. two\nC. three\nD. four\nGo."
    lines = prompt_of(second).split("\n")
    assert [line[:2] for line in lines[1:-1]] == [f"{letter}." for letter in LETTERS]
    assert lines[-3:-1] == ["E. I don't know", "F. None of the above"]


def test_where_pictures_are_told_apart_a_question_set_is_refused(tmp_path):
    with pytest.raises(TaskError, match="colours is a question set; here a task of pictures is needed"):
        picture_task(write_set(tmp_path / "colours", [question(0)]))


def test_a_question_set_is_no_data_to_measure_or_learn_on(tmp_path):
    from smelt.errors import RecipeError
    from smelt.measurement.request import one_task
    from smelt.recipe.schema import DataUse
    from smelt.tasks.examples import tasks_for

    folder = write_set(tmp_path / "colours", [question(0)])
    with pytest.raises(RecipeError, match="colours is a question set, on which nothing is measured"):
        one_task(folder)
    with pytest.raises(RecipeError, match="colours is a question set, on which nothing is measured or learned"):
        tasks_for(["red"], DataUse(tasks={"red": str(folder)}))
