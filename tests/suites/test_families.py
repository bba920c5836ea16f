"""One suite for several families of models."""

import pytest

from smelt.errors import RecipeError
from smelt.suites.families import of_family

SUITE = {
    "name": "many",
    "title": "Eight tasks, {family}",
    "families": {
        "B-32": {"words": {"arch": "base32"}},
        "L-14": {"words": {"arch": "large14"}, "fields": {"points": 3}},
    },
    "pool": {"base": "hf:openai/{arch}", "models": {"cars": "hf:org/{arch}_cars"}},
    "templates": ["a photo of a {}"],
    "points": 5,
}


def test_words_of_a_family_stand_in_every_text_and_its_fields_take_the_place_of_the_suites():
    told = of_family(SUITE, "L-14", "many.yaml")
    assert told == {
        "name": "many",
        "title": "Eight tasks, L-14",
        "family": "L-14",
        "pool": {"base": "hf:openai/large14", "models": {"cars": "hf:org/large14_cars"}},
        "templates": ["a photo of a {}"],
        "points": 3,
    }


def test_the_first_family_is_the_default():
    assert of_family(SUITE, None, "many.yaml")["pool"]["base"] == "hf:openai/base32"


def test_runs_of_a_plain_family_are_called_by_the_suites_name_alone():
    plain = {**SUITE, "families": {**SUITE["families"], "old": {"plain": True, "words": {"arch": "old"}}}}
    told = of_family(plain, "old", "many.yaml")
    assert "family" not in told
    assert (told["title"], told["pool"]["base"]) == ("Eight tasks, old", "hf:openai/old")


def test_an_unknown_family_is_refused_with_those_that_there_are():
    with pytest.raises(RecipeError, match="many: no family named 'L-15' \\(did you mean 'L-14'"):
        of_family(SUITE, "L-15", "many.yaml")


def test_a_suite_with_one_family_takes_no_word_about_it():
    with pytest.raises(RecipeError, match="family: clip8 has one family of models alone"):
        of_family({"name": "clip8"}, "L-14", "clip8.yaml")
