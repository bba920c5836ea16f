"""What a recipe says of routers and groups of tensors, and which mixtures of experts do not merge."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import smelt
from tiny_experts import made, saved

ROUTERS = ("mlp.gate.weight", "e_score_correction_bias")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("pool")
    return {name: saved(made("DeepseekV3", seed), place / name) for seed, name in enumerate(("base", "one", "two"))}


def weights(folder: str | Path) -> dict[str, Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def changed(folder: str, out: Path, **tensors: Tensor | None) -> str:
    """The same model with some tensors of layer 1 replaced, or left out."""
    import shutil

    shutil.copytree(folder, out)
    state = weights(folder) | {f"model.layers.1.mlp.{name.replace('__', '.')}": one for name, one in tensors.items()}
    save_file({name: one for name, one in state.items() if one is not None}, out / "model.safetensors")
    return str(out)


@pytest.mark.parametrize("owner", ["base", "two"])
def test_routers_are_those_of_the_one_that_is_named(tmp_path: Path, pool: dict[str, str], owner: str) -> None:
    models = {name: pool[name] for name in ("one", "two")}
    summary = smelt.merge(models, base=pool["base"], method="task_arithmetic", routers=owner, out=tmp_path / "out")
    plain = smelt.merge(models, base=pool["base"], method="task_arithmetic")
    merged = weights(tmp_path / "out")
    for name, tensor in merged.items():
        expected = weights(pool[owner])[name] if name.endswith(ROUTERS) else plain[name]
        assert torch.equal(tensor, expected), name
    note = f"2 tensors are copied from {owner} (routers: {owner})"
    assert any(note in one for one in summary.notes)
    assert note in (tmp_path / "out/README.md").read_text()
    assert any(note in one for one in smelt.plan(models, base=pool["base"], method="ties", routers=owner).notes)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("experts", ".mlp.experts."),
        ("shared_experts", ".mlp.shared_experts."),
        ("routers", ".mlp.gate."),
    ],
)
def test_a_group_is_a_pattern(pool: dict[str, str], group: str, words: str) -> None:
    merged = smelt.merge({"one": pool["one"], "two": pool["two"]}, skip=group)
    one = weights(pool["one"])
    assert {name for name in one if torch.equal(merged[name], one[name])} == {name for name in one if words in name}


def test_a_part_may_be_a_group(pool: dict[str, str]) -> None:
    recipe = {
        "pool": {"base": pool["base"], "models": {"one": pool["one"], "two": pool["two"]}},
        "merge": {"task_arithmetic": {"scale": [{"filter": "shared_experts", "value": 0.0}, {"value": 1.0}]}},
        "parts": [{"keys": "experts", "merge": "average"}],
    }
    merged = smelt.merge(recipe)
    base, one, two = (weights(pool[name]) for name in ("base", "one", "two"))
    name = "model.layers.1.mlp.experts.3.up_proj.weight"
    torch.testing.assert_close(merged[name], (one[name] + two[name]) / 2)
    name = "model.layers.1.mlp.shared_experts.up_proj.weight"
    assert torch.equal(merged[name], base[name])


def test_routers_of_dense_models_are_refused() -> None:
    dense = {"w": torch.ones(2, 2)}
    with pytest.raises(smelt.RecipeError, match=r"routers: a, but .* has no layer with experts"):
        smelt.merge({"a": dense, "b": dense}, routers="a")


def test_routers_of_nobody_are_refused(pool: dict[str, str]) -> None:
    models = {"one": pool["one"], "two": pool["two"]}
    with pytest.raises(smelt.RecipeError, match=r"routers: no model named 'on' \(did you mean 'one'\?\)"):
        smelt.merge(models, routers="on")
    with pytest.raises(smelt.RecipeError, match="routers: base, but no base is given"):
        smelt.merge(models, routers="base")


def test_other_numbers_of_experts_are_refused_by_name(tmp_path: Path, pool: dict[str, str]) -> None:
    fewer = changed(
        pool["two"],
        tmp_path / "fewer",
        **{f"experts__3__{layer}_proj__weight": None for layer in ("gate", "up", "down")},
        gate__weight=torch.ones(3, 8),
        gate__e_score_correction_bias=torch.ones(3),
    )
    message = "fewer has 3 experts in model.layers.1.mlp, but one has 4; experts merge one with one"
    with pytest.raises(smelt.IncompatibleModels, match=message):
        smelt.merge({"one": pool["one"], "fewer": fewer})
    assert not smelt.check_models({"one": pool["one"], "fewer": fewer}).ok
    merged = smelt.merge({"one": pool["one"], "fewer": fewer}, skip=["experts", "routers"])
    name = "model.layers.1.mlp.experts.0.up_proj.weight"
    assert torch.equal(merged[name], weights(pool["one"])[name])


def test_a_missing_expert_is_refused_though_all_models_lack_it(tmp_path: Path, pool: dict[str, str]) -> None:
    gone = {f"experts__1__{layer}_proj__weight": None for layer in ("gate", "up", "down")}
    folders = [changed(pool[name], tmp_path / name, **gone) for name in ("one", "two")]
    with pytest.raises(smelt.IncompatibleModels, match=r"one: model\.layers\.1\.mlp lacks expert 1 of 4"):
        smelt.merge(folders)


def test_the_last_expert_is_missed_too(tmp_path: Path, pool: dict[str, str]) -> None:
    """The router still has its row."""
    gone = {f"experts__3__{layer}_proj__weight": None for layer in ("gate", "up", "down")}
    folders = [changed(pool[name], tmp_path / name, **gone) for name in ("one", "two")]
    with pytest.raises(smelt.IncompatibleModels, match=r"\(4, 8\), which is no router of the 3 experts"):
        smelt.merge(folders)


def test_half_an_expert_and_one_of_another_shape_are_refused(tmp_path: Path, pool: dict[str, str]) -> None:
    half = [changed(pool[name], tmp_path / f"{name}-half", experts__2__up_proj__weight=None) for name in ("one", "two")]
    with pytest.raises(smelt.IncompatibleModels, match=r"expert 2 has no 'up_proj\.weight'"):
        smelt.merge(half)
    wide = torch.ones(5, 8)
    odd = [changed(pool[name], tmp_path / f"{name}-odd", experts__2__up_proj__weight=wide) for name in ("one", "two")]
    with pytest.raises(smelt.IncompatibleModels, match=r"experts\.2\.up_proj\.weight' is \(5, 8\), but .* \(8, 8\)"):
        smelt.merge(odd)


def test_a_router_of_another_size_is_refused(tmp_path: Path, pool: dict[str, str]) -> None:
    folders = [changed(pool[name], tmp_path / name, gate__weight=torch.ones(2, 3)) for name in ("one", "two")]
    with pytest.raises(smelt.IncompatibleModels, match="is no router of the 4 experts"):
        smelt.merge(folders)
