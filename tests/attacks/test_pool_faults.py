"""Who is merged: nobody twice, the base not with its children, a base where one is needed, nothing in the way."""

import shutil

import pytest

import smelt
from checkpoints import snapshot, write_yaml
from smelt.errors import RecipeError


def refuses(tmp_path, cli, *words, models, **request):
    before = snapshot(tmp_path)
    with pytest.raises(RecipeError) as caught:
        smelt.merge(models, out=tmp_path / "out", **request)
    assert caught.value.exit_code == 2
    for word in words:
        assert word in str(caught.value)
    assert snapshot(tmp_path) == before


def test_a_model_listed_twice_is_refused(tmp_path, two, cli):
    base, cars, birds = two
    words = ("'cars'", "'again'", "same model", "list it once")
    refuses(tmp_path, cli, *words, models={"cars": cars, "birds": birds, "again": cars}, base=base)
    refuses(tmp_path, cli, "same model", models=[cars, cars])


def test_a_model_listed_twice_in_other_spellings_is_refused(tmp_path, two, cli):
    _base, cars, _birds = two
    for other in (f"dir:{cars}", f"{cars}/", f"{cars}/../cars", cars / "model.safetensors"):
        refuses(tmp_path, cli, "same model", models={"cars": cars, "again": str(other)})
    (tmp_path / "link").symlink_to(cars)
    refuses(tmp_path, cli, "same model", models={"cars": cars, "again": tmp_path / "link"})


def test_a_copy_of_a_model_is_another_model(tmp_path, two):
    _base, cars, _birds = two
    shutil.copytree(cars, tmp_path / "copy")
    assert smelt.merge([cars, tmp_path / "copy"], out=tmp_path / "out").tensors == 6


def test_the_base_among_the_models_is_refused(tmp_path, two, cli):
    base, cars, _birds = two
    refuses(tmp_path, cli, "'again'", "same model as the base", models={"cars": cars, "again": base}, base=base)


def test_a_model_called_base_is_refused(tmp_path, two, cli):
    base, cars, _birds = two
    refuses(tmp_path, cli, "'base'", "another name", models={"base": base, "cars": cars})


@pytest.mark.parametrize(
    "method", ["ties", "task_arithmetic", [("dare", {"density": 0.5}), "ties"], "dare_ties", "tsv"]
)
def test_no_base_where_one_is_needed_is_refused(tmp_path, two, cli, method):
    _base, cars, birds = two
    refuses(tmp_path, cli, "changes from a base", "none is given", models=[cars, birds], method=method)


def test_all_faults_of_a_pool_come_at_once(tmp_path, two, cli):
    base, cars, _birds = two
    models = {"cars": cars, "twin": cars, "ghost": tmp_path / "ghost", "again": base}
    refuses(tmp_path, cli, "ghost", "'twin'", "'again'", models=models, base=base)


def test_no_models_are_refused(tmp_path, cli):
    refuses(tmp_path, cli, "models", models={})
    refuses(tmp_path, cli, "models", models=[])
    ran = cli("merge", "-o", tmp_path / "out")
    assert (ran.code, "nothing to merge" in ran.err) == (2, True)


def test_a_method_for_two_models_refuses_three(tmp_path, two):
    _base, cars, birds = two
    shutil.copytree(cars, tmp_path / "copy")
    with pytest.raises(smelt.SmeltError, match="slerp merges exactly 2 models, got 3"):
        smelt.merge([cars, birds, tmp_path / "copy"], method="slerp", out=tmp_path / "out")


def test_two_models_of_one_name_on_the_command_line_are_refused(tmp_path, two, cli):
    _base, cars, birds = two
    ran = cli("merge", "--model", f"a={cars}", "--model", f"a={birds}", "-o", tmp_path / "out")
    assert (ran.code, "two models are named 'a'" in ran.err) == (2, True)


def test_two_models_of_one_name_in_yaml_are_refused(tmp_path, two, cli):
    _base, cars, birds = two
    text = f"pool:\n  models:\n    a: {cars}\n    a: {birds}\nmerge: average\n"
    ran = cli("merge", write_yaml(tmp_path / "recipe.yaml", text), "-o", tmp_path / "out")
    assert (ran.code, "'a' stands twice" in ran.err) == (2, True)


def test_folders_of_one_name_are_told_apart(tmp_path, two):
    _base, cars, birds = two
    shutil.copytree(birds, tmp_path / "other" / "cars")
    assert smelt.plan([cars, tmp_path / "other" / "cars"]).models == ["cars", "cars-2"]
