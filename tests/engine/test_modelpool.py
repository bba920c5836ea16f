"""The pool: ordered, opened together, closed together, every fault at once."""

import sys

import pytest

from checkpoints import state, write_model, write_yaml
from smelt.engine.pool import ModelPool, opened
from smelt.errors import MissingExtra, RecipeError
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
    monkeypatch.setattr("smelt.formats.safetensors.FileSource.close", lambda self: closed.append(self.label))
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


def test_what_is_wrong_with_several_models_is_said_once(pool, monkeypatch):
    monkeypatch.setitem(sys.modules, "smelt_zoo", None)
    zoo = {f"expert-{number}": f"zoo:expert-{number}" for number in range(8)}
    with pytest.raises(MissingExtra) as caught, opened(Pool(base="zoo:x", models=zoo)):
        pass
    assert str(caught.value).count("the zoo is not installed") == 1
    with pytest.raises(RecipeError) as caught, opened(Pool(base="nowhere", models={**zoo, **pool.models})):
        pass
    assert str(caught.value).count("\n  - ") == 2
    assert str(caught.value).count("the zoo is not installed") == 1


def test_every_source_is_closed_at_the_end(pool, monkeypatch):
    closed = []
    with opened(pool):
        monkeypatch.setattr("smelt.formats.safetensors.FileSource.close", lambda self: closed.append(self.label))
    assert len(closed) == 3


def test_relative_references_start_at_the_recipes_folder(tmp_path):
    write_model(tmp_path / "cars", state())
    with opened(Pool(models={"cars": "cars"}), relative_to=tmp_path) as models:
        assert models.reference.folder == tmp_path / "cars"


def test_a_pool_cannot_be_changed(pool):
    with opened(pool) as models:
        with pytest.raises(TypeError):
            models.models["more"] = models.reference
        with pytest.raises(AttributeError):
            models.base = None


def test_a_change_of_the_table_it_was_made_from_does_not_reach_it(pool):
    with opened(pool) as models:
        table = dict(models.models)
        copy = ModelPool(models.base, table)
        table.clear()
        assert list(copy.models) == ["cars", "birds"]


@pytest.mark.parametrize("under", ["", "pool"])
def test_a_pool_is_read_from_a_file_with_paths_relative_to_it(two, tmp_path, under):
    content = {"base": "models/base", "models": {"b": "models/birds", "c": "models/cars"}}
    file = write_yaml(tmp_path / "pool.yaml", {under: content, "merge": "average"} if under else content)
    with ModelPool.open(file) as models:
        assert list(models.all) == ["base", "b", "c"]
        assert models.base.folder == two[0]


def test_a_pool_is_made_in_python_from_a_table_or_a_list(two):
    base, cars, birds = map(str, two)
    with ModelPool.open({"b": birds, "c": cars}, base=base) as models:
        assert list(models.all) == ["base", "b", "c"]
    with ModelPool.open([cars, birds]) as models:
        assert (list(models.models), models.base) == (["cars", "birds"], None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"base": "x", "modls": ["y"]}, r"no key under 'pool' named 'modls' \(did you mean 'models'\?\)"),
        ({"base": "x"}, r"pool\.models is missing"),
        (["x"], "a pool is a table with `base` and `models`, got list"),
        ("base: x\nbase: y\n", "the key 'base' stands twice"),
    ],
)
def test_a_file_that_is_no_pool_is_refused_in_words(tmp_path, content, said):
    with pytest.raises(RecipeError, match=said):
        ModelPool.open(write_yaml(tmp_path / "pool.yaml", content))


def test_a_file_that_is_not_there_is_refused_as_a_pool(tmp_path):
    with pytest.raises(RecipeError, match=r"no pool at .*ghost\.yaml"):
        ModelPool.open(tmp_path / "ghost.yaml")
