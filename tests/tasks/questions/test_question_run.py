"""`smelt eval` on question sets: rows with intervals, and clear words where kinds do not fit."""

import json

import pytest

from pico_clip import random_clip, save_clip, write_task
from pico_llama import write_chat_task, write_llama
from question_sets import question, write_set
from smelt.errors import RecipeError
from smelt.evaluation.load import load_model
from smelt.models.families.load import load
from smelt.prepare.evaluate import evaluate_model_or_recipe
from smelt.tasks.intervals import wilson
from smelt.tasks.questions.option_scores import option_logits, question_subset
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError
from smelt.testing.pico_llava import save_llava


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_llava(tmp_path_factory.mktemp("llava") / "base"))


@pytest.fixture
def colours(tmp_path):
    return write_set(tmp_path / "colours", [question(number) for number in range(12)])


def test_accuracy_is_the_share_of_right_letters_with_wilson_s_interval(model, colours):
    done = evaluate_model_or_recipe(model, colours)
    (row,), (result,) = done.rows, done.results
    loaded = load(model, "image_text")
    some = question_subset(find_task(colours), "test")
    letters = option_logits(loaded, some).argmax(dim=1).numpy()
    right = int((letters == some.labels).sum())
    assert (row.task, row.n, row.correct, row.accuracy, row.metric) == ("colours", 12, right, right / 12, "accuracy")
    assert (row.low, row.high) == wilson(right, 12)
    assert row.model_hash == loaded.hash
    assert row.command == f"smelt eval {model} --tasks {colours} --split test"
    assert result.classes == tuple("ABCDEF")
    assert result.confusion.trace() == right
    assert result.confusion.sum() == 12


def test_the_command_shows_questions(model, colours, cli, tmp_path):
    ran = cli("eval", model, "--tasks", colours, "--limit", 6, "--confusion", "-o", tmp_path / "rows.jsonl")
    assert ran.code == 0, ran.err
    assert "questions" in ran.out
    assert "0 A" in ran.out
    assert json.loads((tmp_path / "rows.jsonl").read_text())["n"] == 6
    told = json.loads(cli("eval", model, "--tasks", colours, "--json").out)
    assert told["rows"][0]["task"] == "colours"


def test_a_set_is_shown_with_an_example(colours, cli):
    ran = cli("tasks", colours)
    assert "splits:     test 12" in ran.out
    assert "  A. red\n  B. green\n  C. I don't know\n  D. None of the above\n" in ran.out
    assert "answer:     A" in ran.out
    told = json.loads(cli("tasks", colours, "--json").out)
    assert (told["kind"], told["splits"], told["licence"]) == ("questions", {"test": 12}, "CC0-1.0")


def test_questions_without_an_answer_have_no_accuracy(model, tmp_path):
    folder = write_set(tmp_path / "open", [question(0), question(1, answer=None)])
    with pytest.raises(TaskError, match=r"line 2: has no answer \(null\), so accuracy cannot be told"):
        evaluate_model_or_recipe(model, folder)


def test_tasks_of_several_kinds_are_refused(model, colours, tmp_path):
    pictures, texts = write_task(tmp_path / "plain"), write_chat_task(tmp_path / "words", [("w1", "w2")], split="test")
    with pytest.raises(RecipeError, match="plain is a task of pictures and colours a question set; no model does both"):
        evaluate_model_or_recipe(model, [colours, pictures])
    with pytest.raises(RecipeError, match="words is a language task and colours a question set"):
        evaluate_model_or_recipe(model, [colours, texts])


def test_models_that_cannot_see_and_read_are_refused(colours, tmp_path):
    clip, llama = save_clip(random_clip(), tmp_path / "clip"), write_llama(tmp_path / "llama")
    for folder, kind in ((clip, "clip"), (llama, "llama")):
        with pytest.raises(
            RecipeError, match=f"is a model of type '{kind}', which answers no questions about pictures"
        ):
            evaluate_model_or_recipe(str(folder), colours)
    loaded = load_model(str(clip), write_task(tmp_path / "plain"))
    with pytest.raises(RecipeError, match="is a model of pictures, which answers no questions; give tasks of pictures"):
        evaluate_model_or_recipe(loaded, colours)


def test_a_model_that_sees_and_reads_is_refused_for_other_tasks(model, tmp_path):
    pictures, texts = write_task(tmp_path / "plain"), write_chat_task(tmp_path / "words", [("w1", "w2")], split="test")
    with pytest.raises(RecipeError, match="is a model of type 'llava', not CLIP"):
        evaluate_model_or_recipe(model, pictures)
    with pytest.raises(RecipeError, match="'llava', which is no causal language model"):
        load_model(model, texts)
    loaded = load(model, "image_text")
    for task in (pictures, texts):
        with pytest.raises(
            RecipeError, match="is a model of pictures and texts, which answers questions by the letter"
        ):
            load_model(loaded, task)


def test_a_corruption_is_refused(model, colours):
    with pytest.raises(RecipeError, match="corruption: is done to tasks of pictures, not to question sets"):
        evaluate_model_or_recipe(model, colours, corruption="motion_blur@3")


def test_a_recipe_is_merged_and_then_asked(model, colours, tmp_path):
    tuned = [str(save_llava(tmp_path / name, change=change)) for name, change in (("one", 0.01), ("two", 0.03))]
    recipe = tmp_path / "mean.yaml"
    recipe.write_text(json.dumps({"pool": {"base": model, "models": tuned}, "merge": "average"}))
    (row,) = evaluate_model_or_recipe(str(recipe), colours).rows
    assert row.entry == "mean"
    assert row.recipe["merge"] == ["average"]
