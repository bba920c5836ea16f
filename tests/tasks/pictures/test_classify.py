from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from pico_clip import COLOURS, TEMPLATES, colour_clip, random_clip, save_clip, write_task
from smelt.errors import NumericalError, RecipeError
from smelt.evaluation.evaluate import evaluate_model
from smelt.models.families.clip.family import CLIP
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.result import Result
from smelt.tasks.task import TaskError


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "colours")


def test_a_model_that_knows_colours_is_always_right(tmp_path: Path, task: Path) -> None:
    (result,) = evaluate_model(save_clip(colour_clip(), tmp_path / "model"), task).results
    assert (result.n, result.correct, result.accuracy) == (30, 30, 1.0)
    assert result.confusion.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 10]]


def test_the_same_model_with_two_class_names_swapped_is_wrong_on_both(tmp_path: Path) -> None:
    swapped = write_task(
        tmp_path / "swapped", counts={"red": 5, "green": 3, "blue": 4}, classes=["green", "red", "blue"]
    )
    (result,) = evaluate_model(save_clip(colour_clip(), tmp_path / "model"), swapped).results
    assert (result.n, result.correct) == (12, 4)
    assert result.confusion.tolist() == [[0, 5, 0], [3, 0, 0], [0, 0, 4]]
    assert result.per_class == {"green": 0.0, "red": 0.0, "blue": 1.0}
    assert result.interval == pytest.approx((0.138, 0.609), abs=1e-3)


def test_accuracy_and_loss_do_not_depend_on_the_batch(tmp_path: Path, task: Path) -> None:
    model = save_clip(random_clip(), tmp_path / "model")
    one, seven, all_ = (evaluate_model(model, task, batch=batch).results[0] for batch in (1, 7, 1000))
    assert one.confusion.tolist() == seven.confusion.tolist() == all_.confusion.tolist()
    assert one.loss == pytest.approx(seven.loss, abs=1e-6) == pytest.approx(all_.loss, abs=1e-6)


def test_the_loss_is_the_mean_over_pictures(tmp_path: Path, task: Path) -> None:
    model = CLIP.load(save_clip(random_clip(), tmp_path / "model"))
    (result,) = evaluate_model(model, task, batch=7).results
    ((pictures, labels),) = DataCache().subset(_task(task), "test", None, model.preprocess).batches(30)
    logits = model.logits(pictures, model.head(tuple(COLOURS), TEMPLATES)).double()
    by_hand = [math.log(row.exp().sum()) - float(row[label]) for row, label in zip(logits, labels, strict=True)]
    assert result.loss == pytest.approx(sum(by_hand) / 30, abs=1e-7)


def test_models_of_one_family_share_the_pictures(tmp_path: Path, task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    from smelt.tasks.pictures import data_cache as pictures

    real = pictures.open_split
    monkeypatch.setattr(pictures, "open_split", lambda *words: opened.append(words) or real(*words))
    data = DataCache()
    base = CLIP.load(save_clip(random_clip(), tmp_path / "model"))
    for seed in range(3):
        evaluate_model(random_clip(seed).state_dict(), task, text_from=base, data=data)
    assert len(opened) == 1


def test_bfloat16_gives_nearly_the_same(tmp_path: Path, task: Path) -> None:
    model = save_clip(colour_clip(), tmp_path / "model")
    (result,) = evaluate_model(model, task, dtype="bfloat16").results
    assert result.correct == 30
    assert result.loss == pytest.approx(evaluate_model(model, task).results[0].loss, rel=0.02)


def test_a_limit_evaluates_the_same_pictures_for_every_model(tmp_path: Path, task: Path) -> None:
    totals = [
        evaluate_model(save_clip(random_clip(seed), tmp_path / str(seed)), task, limit=7)
        .results[0]
        .confusion.sum(axis=1)
        for seed in range(2)
    ]
    assert totals[0].tolist() == totals[1].tolist()
    assert totals[0].sum() == 7


def test_the_number_of_threads_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.tasks.pictures.classify._CHUNK", 16)
    task = write_task(tmp_path / "many", counts=dict.fromkeys(COLOURS, 60))
    model = save_clip(random_clip(), tmp_path / "model")
    results = [evaluate_model(model, task, threads=threads).results[0] for threads in (1, 2, 5)]
    assert len({result.loss for result in results}) == 1


def test_threads_are_put_back(tmp_path: Path, task: Path) -> None:
    before = torch.get_num_threads()
    evaluate_model(save_clip(colour_clip(), tmp_path / "model"), task, threads=before + 1)
    assert torch.get_num_threads() == before


def test_a_class_without_pictures_has_no_accuracy() -> None:
    result = Result("t", 1, "test", (1, 1, 0), classes=("a", "b"), confusion=np.array([[2, 1], [0, 0]]))
    assert result.per_class == {"a": 2 / 3, "b": None}


def test_weights_that_are_not_numbers_are_an_error(tmp_path: Path, task: Path) -> None:
    model = colour_clip()
    with torch.no_grad():
        model.vision_model.post_layernorm.weight[0] = float("nan")
    with pytest.raises(NumericalError, match="gives NaN or infinite scores on colours"):
        evaluate_model(save_clip(model, tmp_path / "model"), task)


def test_a_wrong_split_is_refused_before_the_model_is_opened(tmp_path: Path, task: Path) -> None:
    with pytest.raises(TaskError, match="no split named 'train'"):
        evaluate_model(tmp_path / "no-model", task, split="train")


def test_a_batch_of_nothing_is_refused(tmp_path: Path, task: Path) -> None:
    with pytest.raises(RecipeError, match="batch is a number of pictures"):
        evaluate_model(tmp_path / "no-model", task, batch=0)


def _task(folder: Path) -> object:
    from smelt.tasks.pictures.task import PictureTask

    return PictureTask.load(folder)
