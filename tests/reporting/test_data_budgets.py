"""The data that made a model is said in words, loudly where it is the data of the test."""

import pytest

from made_up_suite import row
from smelt.recipe.schema import DataBudget
from smelt.reporting.budget import budget_text, data_text, split_words
from smelt.reporting.tables.grid import build_grid


@pytest.mark.parametrize(
    ("split", "images", "labels", "text"),
    [
        (None, 0, 0, ""),
        ("val", 0, 0, ""),
        ("val", 4526, 0, "4,526 unlabelled val pictures"),
        ("train", 2048, 2048, "2,048 labelled train pictures"),
        ("val", 1, 1, "1 labelled val picture"),
        ("train", 4000, 1500, "4,000 train pictures, 1,500 of them labelled"),
        (None, 10, 0, "10 unlabelled pictures"),
        ("train, val", 10, 0, "10 unlabelled train and val pictures"),
    ],
)
def test_budgets_in_words(split, images, labels, text):
    assert budget_text(DataBudget(split=split, images=images, labels=labels)) == text


@pytest.mark.parametrize("split", ["train, val", "train and val", "train + val", "train val"])
def test_a_split_may_name_several(split):
    assert split_words(DataBudget(split=split)) == ["train", "val"]


def made(task="photos", split="val", images=10):
    return row("adamerging", task, 1, 2, data_budget=DataBudget(split=split, images=images))


def test_a_line_whose_models_used_different_amounts_says_the_most():
    assert data_text([made("photos", images=10), made("digits", images=30)]) == "up to 30 unlabelled val pictures"


def test_a_model_made_with_the_pictures_of_the_test_is_called_out_and_no_other():
    def line(split, images=10):
        return build_grid([made(split=split, images=images)]).lines[0]

    assert line("test").loud == "ADAPTED ON THE VERY TEST PICTURES"
    assert line("train, test").loud
    assert line("test, contrast@2").loud
    assert not line("val").loud
    assert not line("test", images=0).loud  # nothing was used, whatever the split is called
