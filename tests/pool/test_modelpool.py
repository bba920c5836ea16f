"""The pool: ordered, opened together, closed together, every fault at once."""

import pytest

from checkpoints import state, write_model
from smelt.errors import RecipeError
from smelt.pool.modelpool import opened
from smelt.recipe.schema import Pool


@pytest.fixture
def pool(two):
    base, cars, birds = two
    return Pool(base=str(base), models={"cars": str(cars), "birds": str(birds)})


def test_models_keep_their_order_and_the_base_comes_first(pool):
    with opened(pool) as models:
        assert list(models.all) == ["base", "cars", "birds"]
        assert list(models.models) == ["cars", "birds"]
        assert models.reference_name == "base"
        assert models.reference is models.base


def test_without_a_base_the_first_model_is_the_reference(two):
    with opened(Pool(models={"b": str(two[2]), "a": str(two[1])})) as models:
        assert models.reference_name == "b"
        assert models.reference is models.models["b"]


def test_everything_is_closed_at_the_end_and_after_an_error(pool, monkeypatch):
    closed = []
    monkeypatch.setattr("smelt.engine.source.FileSource.close", lambda self: closed.append(self.label))
    with opened(pool):
        pass
    assert len(closed) == 3
    with pytest.raises(KeyError), opened(pool):
        raise KeyError
    assert len(closed) == 6
    broken = Pool(base=pool.base, models={**pool.models, "ghost": "nowhere"})
    with pytest.raises(RecipeError), opened(broken):
        pass
    assert len(closed) == 9


def test_every_model_that_cannot_be_opened_is_named(pool):
    broken = Pool(base="nowhere/base", models={"ghost": "nowhere/ghost", **pool.models})
    with pytest.raises(RecipeError) as caught, opened(broken):
        pass
    assert "nowhere/base" in str(caught.value)
    assert "nowhere/ghost" in str(caught.value)


def test_every_source_is_closed_at_the_end(pool, monkeypatch):
    closed = []
    with opened(pool):
        monkeypatch.setattr("smelt.engine.source.FileSource.close", lambda self: closed.append(self.label))
    assert len(closed) == 3


def test_relative_references_start_at_the_recipes_folder(tmp_path):
    write_model(tmp_path / "cars", state())
    with opened(Pool(models={"cars": "cars"}), relative_to=tmp_path) as models:
        assert models.reference.folder == tmp_path / "cars"
