"""`smelt convert --layout`: experts one by one, and a layer's in one tensor."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import smelt
from tiny_experts import made, saved, saved_as_module


def weights(folder: Path | str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


@pytest.mark.parametrize("kind", ["Mixtral", "Qwen2Moe", "DeepseekV3", "Phimoe", "Jamba"])
def test_both_layouts_are_made_of_each_other(tmp_path: Path, kind: str) -> None:
    model = made(kind, 1)
    files, module = saved(model, tmp_path / "files"), saved_as_module(model, tmp_path / "module")
    for given in (files, module):
        for layout, wanted in (("experts_apart", files), ("experts_together", module)):
            out = tmp_path / Path(given).name / layout
            smelt.convert(given, out=out, layout=layout)
            assert smelt.verify(out).ok
            expected, got = weights(wanted), weights(out)
            assert got.keys() == expected.keys()
            assert all(torch.equal(got[name], tensor) for name, tensor in expected.items())


def test_the_same_is_what_was_given(tmp_path: Path) -> None:
    module = saved_as_module(made("Mixtral", 1), tmp_path / "module")
    smelt.convert(module, out=tmp_path / "out")
    assert weights(tmp_path / "out").keys() == weights(module).keys()


def test_a_model_without_such_experts_is_refused(tmp_path: Path) -> None:
    granite = saved(made("GraniteMoe", 1), tmp_path / "granite")
    with pytest.raises(smelt.RecipeError, match="no library reads the experts"):
        smelt.convert(granite, out=tmp_path / "out", layout="experts_apart")
    oss = saved(made("GptOss", 1), tmp_path / "oss")
    with pytest.raises(smelt.RecipeError, match="has no experts that are stored in both ways"):
        smelt.convert(oss, out=tmp_path / "out", layout="experts_together")
