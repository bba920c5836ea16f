"""Models with BatchNorm through the engine: statistics are merged as weights are, counters are the base's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import smelt
from pico_clip import conv_pool
from smelt.engine.convert.pack import pack
from smelt.models.families.clip.family import CLIP

NORM = "vision_model.encoder.top_bn"


@pytest.fixture
def pool(tmp_path: Path) -> dict:
    return conv_pool(tmp_path)


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


@pytest.mark.parametrize("method", ["average", "task_arithmetic", "ties", "tsv", "slerp"])
def test_counters_are_the_bases_whatever_the_method(pool: dict, tmp_path: Path, method: str) -> None:
    smelt.merge(pool["models"], base=pool["base"], method=method, out=tmp_path / "out")
    merged, own = weights(tmp_path / "out"), weights(pool["models"]["one"])
    counters = [name for name in merged if name.endswith("num_batches_tracked")]
    assert len(counters) == 10
    assert {int(own[name]) for name in counters} == {101}
    assert {(int(merged[name]), merged[name].dtype) for name in counters} == {(100, torch.int64)}
    assert CLIP.load(tmp_path / "out").hash != CLIP.load(pool["base"]).hash


def test_statistics_are_averaged_as_weights_are(pool: dict, tmp_path: Path) -> None:
    smelt.merge(pool["models"], base=pool["base"], method="average", out=tmp_path / "out")
    merged, one, two = (weights(path) for path in (tmp_path / "out", *pool["models"].values()))
    for name in (f"{NORM}.running_mean", f"{NORM}.running_var", f"{NORM}.weight"):
        assert not torch.equal(one[name], two[name])
        torch.testing.assert_close(merged[name], (one[name] + two[name]) / 2, msg=name)


def test_a_pack_has_a_row_for_each_output_channel_and_exact_statistics(pool: dict, tmp_path: Path) -> None:
    done = pack(pool["models"]["one"], base=pool["base"], bits=8, out=tmp_path / "pack")
    one, base = weights(pool["models"]["one"]), weights(pool["base"])
    stored = weights_of_pack(tmp_path / "pack")
    convolution = "vision_model.encoder.top_conv.weight"
    assert done.tensors["codes"] >= 1
    assert done.worst_error < 0.01
    assert one[convolution].shape == (64, 8, 1, 1)
    assert any(tensor.shape == (64,) for name, tensor in stored.items() if convolution in name)  # scales
    loaded = CLIP.load(tmp_path / "pack").model
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(loaded.get_buffer(f"{NORM}.{name}"), one[f"{NORM}.{name}"])
    error = (loaded.get_parameter(convolution) - one[convolution]).norm()
    assert 0 < float(error / (one[convolution] - base[convolution]).norm()) < 0.01


def weights_of_pack(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return load_file(file)
