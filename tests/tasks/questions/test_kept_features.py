"""Models that share a tower: each picture is looked at once for all of them, and the answers are the same."""

import pytest

from question_sets import question, write_set
from smelt.evaluation.evaluate import evaluate_model
from smelt.models.families.image_text.model import ImageText
from smelt.prepare.repeated_merges import RepeatedMerges
from smelt.recipe.schema import Recipe
from smelt.search.trial import _Held
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.questions.ask import QuestionCache
from smelt.tasks.registry import find_task
from smelt.testing.pico_llava import save_llava

PICTURES = 3  # of `question_sets`: red, green, blue


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("towers")
    return {name: str(save_llava(root / name, change=change)) for name, change in (("base", 0.0), ("tuned", 0.03))}


@pytest.fixture
def colours(tmp_path):
    return write_set(tmp_path / "colours", [question(number) for number in range(12)])


@pytest.fixture
def looked(monkeypatch):
    """How many pictures towers were shown."""
    counts = []
    real = ImageText.features
    monkeypatch.setattr(ImageText, "features", lambda self, shown: counts.append(len(shown)) or real(self, shown))
    return counts


def answers(rows):
    return [(row.task, row.correct, row.loss, row.model_hash) for row in rows]


def test_a_second_model_with_the_same_tower_looks_at_nothing(models, colours, looked):
    data = DataCache()
    evaluate_model(models["base"], colours, data=data)
    first = sum(looked)
    shared = evaluate_model(models["tuned"], colours, data=data).rows
    assert sum(looked) == first
    assert first >= PICTURES
    alone = evaluate_model(models["tuned"], colours).rows
    assert sum(looked) == 2 * first
    assert answers(shared) == answers(alone)


def test_another_tower_takes_the_place_of_the_last_one():
    kept = QuestionCache()
    first = kept.features("one")
    assert kept.features("one") is first
    assert kept.features("other") is not first
    assert kept.features("one") is not first


def test_questions_are_read_once_and_another_limit_is_another_part(colours):
    kept, data, task = QuestionCache(), DataCache(), find_task(colours)
    first = kept.prepared(task, "test", None, data)
    assert kept.prepared(task, "test", None, data) is first
    part = kept.prepared(task, "test", 5, data)
    assert (first.subset.n, part.subset.n) == (12, 5)


def test_the_trials_of_a_study_look_once_at_each_picture(models, colours, looked):
    recipe = {"pool": {"base": models["base"], "models": {"tuned": models["tuned"]}}, "merge": "task_arithmetic"}
    made = Recipe.parse(recipe)
    study = _Held(RepeatedMerges(made), DataCache())
    words = {"text_from": None, "device": "cpu", "dtype": "float32", "split": "test", "limit": None}
    rows, counts = {}, []
    for scale in (0.2, 0.9):
        at = Recipe.parse({**recipe, "merge": {"task_arithmetic": {"scale": scale}}})
        (rows[scale],), stopped = study.rows(study.merges.at(at), [str(colours)], None, {}, **words)
        counts.append(sum(looked))
        assert not stopped
    assert counts[0] == counts[1] >= PICTURES
    assert rows[0.2]["model_hash"] != rows[0.9]["model_hash"]
    assert rows[0.2]["dtype"] == "float32"
