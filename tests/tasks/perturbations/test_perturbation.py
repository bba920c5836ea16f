"""Perturbations belong to a place; each kind can be off."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.tasks.perturbations.perturbation import PROMPTS, Perturbation


def test_the_nine_prompts_are_nine_different_strings():
    """U13."""
    assert len(PROMPTS) == len(set(PROMPTS)) == 9
    assert {"you are a helpful assistant", "You are a nice assistant", "You are a question-answering assistant."} <= {
        *PROMPTS
    }


def test_every_prompt_is_drawn_about_as_often():
    how = Perturbation()
    drawn = [how.prefix(how.seed_of("objects", sample, 0)) for sample in range(900)]
    counts = [drawn.count(prompt) for prompt in PROMPTS]
    assert sum(counts) == 900
    assert min(counts) > 60


def test_a_seed_belongs_to_the_set_the_sample_and_the_pass():
    how = Perturbation()
    seeds = {how.seed_of(task, sample, number) for task in ("a", "b") for sample in range(5) for number in range(4)}
    assert len(seeds) == 40
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert how.seed_of("a", 1, 2) == Perturbation(passes=9, dropout=0.3).seed_of("a", 1, 2)
    assert how.seed_of("a", 1, 2) != Perturbation(seed=1).seed_of("a", 1, 2)


def test_what_is_off_leaves_pictures_texts_and_models_as_they_are():
    how = Perturbation(image=False, text=False, model=False)
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert how.picture(picture, 7) is picture
    assert how.prefix(7) == ""
    assert how.rate == 0


def test_words_are_those_that_draws_follow_from():
    """A dropout that is not done is no difference."""
    assert Perturbation(model=False, dropout=0.3).words() == Perturbation(model=True, dropout=0.0).words()
    assert Perturbation(passes=2).words() != Perturbation(passes=3).words()


def test_repeats_have_draws_of_their_own_and_the_first_is_the_perturbation_itself():
    how = Perturbation(seed=3)
    assert how.repeated(0) is how
    assert len({how.repeated(repeat).seed for repeat in range(4)}) == 4


@pytest.mark.parametrize(("words", "said"), [({"passes": 0}, "at least 1; got 0"), ({"dropout": 1.0}, "less than 1")])
def test_numbers_that_make_no_sense_are_refused(words: dict[str, float], said: str):
    with pytest.raises(RecipeError, match=said):
        Perturbation(**words)  # type: ignore[arg-type]
