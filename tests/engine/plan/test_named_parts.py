"""`vision`, `projector` and `language` in a recipe mean the parts of a model that sees and reads, of any class."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from smelt.errors import IncompatibleModels
from smelt.formats.architecture.layout import Layout
from smelt.recipe.model_parts import parts_in
from tiny_multimodal import CONFIGS, multimodal


@pytest.fixture(scope="module")
def qwens(tmp_path_factory):
    home = tmp_path_factory.mktemp("qwens")
    for seed, name in enumerate(("base", "one", "two")):
        multimodal("qwen2_vl", seed).save_pretrained(home / name)
    return home


def parameters(seed):
    return dict(multimodal("qwen2_vl", seed).named_parameters())


def merged(qwens, out, **words):
    recipe = {
        "pool": {"base": str(qwens / "base"), "models": {"one": str(qwens / "one"), "two": str(qwens / "two")}},
        "merge": "average",
        **words,
    }
    smelt.merge(recipe, out=out)
    return load_file(out / "model.safetensors")


def test_a_recipe_gives_each_part_a_rule_of_its_own(qwens, tmp_path):
    out = merged(
        qwens,
        tmp_path / "out",
        skip="vision",
        parts=[{"keys": "projector", "merge": {"average": {"weights": {"one": 1, "two": 0}}}}],
    )
    base, one, two = (parameters(seed) for seed in range(3))
    for name, tensor in out.items():
        if name.startswith("model.visual.merger."):
            assert torch.equal(tensor, one[name]), name
        elif name.startswith("model.visual."):
            assert torch.equal(tensor, base[name]), name
        else:
            torch.testing.assert_close(tensor, (one[name] + two[name]) / 2)


def test_include_takes_the_language_model_with_its_head(qwens, tmp_path):
    out = merged(qwens, tmp_path / "out", include="language")
    base = parameters(0)
    changed = {name for name, tensor in out.items() if not torch.equal(tensor, base[name])}
    own = parameters(1)  # norms and biases of a model with random numbers are ones and zeros in all of them
    trained = {name for name in base if not torch.equal(base[name], own[name])}
    assert changed == {name for name in trained if name.startswith(("model.language_model.", "lm_head."))}


def test_a_filter_gives_parts_another_scale(qwens, tmp_path):
    scale = [{"filter": "language", "value": 0.0}, {"value": 1.0}]
    pool = {"base": str(qwens / "base"), "models": {"one": str(qwens / "one")}}
    out = merged(qwens, tmp_path / "out", pool=pool, merge={"task_arithmetic": {"scale": scale}})
    base, one = parameters(0), parameters(1)
    for name, tensor in out.items():
        torch.testing.assert_close(tensor, (one if name.startswith("model.visual") else base)[name], msg=name)


def test_a_part_that_the_models_lack_is_refused_with_those_they_have(qwens, tmp_path):
    for name in ("text", "other"):
        state = {"model.layers.0.w.weight": torch.rand(4, 4), "lm_head.weight": torch.rand(8, 4)}
        save_file(state, tmp_path / f"{name}.safetensors")
    pool = {name: str(tmp_path / f"{name}.safetensors") for name in ("text", "other")}
    with pytest.raises(IncompatibleModels, match="no part named 'language'; their parts are none"):
        smelt.merge(pool, method="average", include="language", out=tmp_path / "out")


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_every_class_has_all_three_parts_and_slices_mean_the_language_model(kind):
    names = list(multimodal(kind).state_dict())
    found = parts_in(names)
    assert set(found) == {"vision", "projector", "language"}
    assert sum(found.values()) == len(names)
    assert Layout.of(names).main_stack in ("model.language_model.layers", "model.text_model.layers")
