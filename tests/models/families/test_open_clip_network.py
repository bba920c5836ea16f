"""A residual network of open_clip as a function of its picture tower's weights, and as a fine-tune over its base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
from smelt.errors import RecipeError
from smelt.learning.neulig.collaborate import merged_logits
from smelt.learning.neulig.experts import Experts
from smelt.measurement.layer_inputs import linear_layers
from smelt.models.families.load import load
from smelt.models.families.network import network_of
from stand_in_hub.published import neulig as published


@pytest.fixture
def base(stand_in: Any) -> Any:
    published.fill(stand_in.contents)
    return load("open_clip:RN50/openai", "classifier")


@pytest.fixture
def tuned(base: Any, tmp_path: Path) -> dict[str, str]:
    return {
        name: str(published.tuned_resnet(base.folder, tmp_path / name, seed)) for seed, name in enumerate(("a", "b"))
    }


@pytest.fixture
def pictures() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_its_features_are_those_of_the_library(base: Any, pictures: torch.Tensor) -> None:
    with torch.no_grad():
        expected = base.model.encode_image(pictures)
        network = network_of(base)
        found = network.encode(network.weights(), pictures)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert all(key.startswith("visual.") for key in network.keys)
    assert "visual.bn1.running_var" in network.keys


def test_a_fine_tune_is_its_picture_tower_over_the_base(base: Any, tuned: dict[str, str]) -> None:
    expert = load(tuned["a"], "classifier", text_from=base)
    assert expert.rest_hash == base.rest_hash
    assert expert.hash != base.hash
    own, rest = expert.model.state_dict(), base.model.state_dict()
    assert not torch.equal(own["visual.conv1.weight"], rest["visual.conv1.weight"])
    assert own["token_embedding.weight"].data_ptr() == rest["token_embedding.weight"].data_ptr()


def test_a_tower_of_another_shape_is_refused(base: Any, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "open_clip_config.json").write_text((base.folder / "open_clip_config.json").read_text())
    save_file({"visual.conv1.weight": torch.zeros(1, 3, 3, 3)}, folder / "model.safetensors")
    with pytest.raises(RecipeError, match=r"its picture tower is another one than that of open_clip:RN50/openai"):
        load(str(folder), "classifier", text_from=base)


def test_every_picture_has_its_own_merged_model_as_if_alone(
    base: Any, tuned: dict[str, str], pictures: torch.Tensor
) -> None:
    networks = {name: network_of(load(ref, "classifier", text_from=base)) for name, ref in tuned.items()}
    experts: Any = Experts(networks)
    head = torch.nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    beta = torch.tensor([[1.0, 0.0], [0.3, 0.7], [0.5, 0.5]])
    together = merged_logits(experts, beta, pictures, head)
    for place in range(3):
        weights = {key: beta[place] @ experts.stack(key).flatten(1) for key in experts.keys}
        weights = {key: tensor.view(experts.stack(key)[0].shape) for key, tensor in weights.items()}
        alone = experts.network.logits(weights, pictures[place : place + 1], head)
        torch.testing.assert_close(together[place : place + 1], alone, rtol=1e-3, atol=1e-4)


def test_a_merge_of_residual_networks_is_a_folder_that_loads_again(
    base: Any, tuned: dict[str, str], tmp_path: Path
) -> None:
    recipe = {"pool": {"base": "open_clip:RN50/openai", "models": tuned}, "merge": "average", "include": ["visual.*"]}
    smelt.merge(recipe, out=tmp_path / "merged")
    merged = load(str(tmp_path / "merged"), "classifier")
    parts = [
        load(ref, "classifier", text_from=base).model.state_dict()["visual.conv1.weight"] for ref in tuned.values()
    ]
    torch.testing.assert_close(merged.model.state_dict()["visual.conv1.weight"], (parts[0] + parts[1]) / 2)
    assert json.loads((tmp_path / "merged" / "open_clip_config.json").read_text())["model_cfg"]["embed_dim"] == 8


def test_its_convolutions_have_gram_matrices(base: Any) -> None:
    layers = linear_layers(network_of(base))
    assert "visual.layer1.0.conv2.weight" in layers
    assert "visual.conv1.weight" in layers
