"""Models of the hub with `stream`: through its real client and its redirects, and nothing in the cache afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
from models_afar import write_models
from smelt.errors import RecipeError
from stand_in_hub import StandInHub

pytest.importorskip("obstore")


@pytest.fixture
def hub(stand_in: StandInHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    write_models(tmp_path / "models", 3, width=1024)
    for name in ("m0", "m1", "m2"):
        stand_in.contents.add_model(f"org/{name}", tmp_path / "models" / name)
    return stand_in


def cached(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*.safetensors") if path.is_file()]


def test_streamed_models_give_the_very_files_that_fetched_ones_give(hub: StandInHub, tmp_path: Path) -> None:
    words: dict[str, Any] = {"base": "hf:org/m0", "method": "ties"}
    models = {"a": "hf:org/m1", "b": "hf:org/m2@main"}
    smelt.merge(models, **words, out=tmp_path / "streamed/out", stream=True)
    assert not cached(tmp_path)
    smelt.merge(models, **words, out=tmp_path / "fetched/out")
    assert cached(tmp_path)
    names = sorted(path.name for path in (tmp_path / "fetched/out").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "streamed/out").iterdir())
    for name in names:
        assert (tmp_path / "streamed/out" / name).read_bytes() == (tmp_path / "fetched/out" / name).read_bytes(), name


def test_a_plan_reads_headers_only(hub: StandInHub) -> None:
    report = smelt.plan(["hf:org/m1", "hf:org/m2"], stream=True)
    assert report.absent == []
    assert sum(hub.downloaded(f"org/{name}") for name in ("m1", "m2")) < 3 << 20


def test_an_adapter_over_a_model_of_the_hub_is_streamed_too(hub: StandInHub, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    factors = {"lora_A.weight": torch.randn(4, 1024), "lora_B.weight": torch.randn(1024, 4)}
    save_file(
        {f"base_model.model.layers.0.mlp.{name}": one for name, one in factors.items()},
        folder / "adapter_model.safetensors",
    )
    config = {
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "base_model_name_or_path": "org/m0",
        "target_modules": ["mlp"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    hub.contents.add_model("org/lora", folder)
    models = {"a": "hf:org/m1", "b": "hf:org/m0+hf:org/lora", "c": "hf:org/m2"}
    smelt.merge(models, out=tmp_path / "streamed/out", stream=True)
    assert not cached(tmp_path)
    smelt.merge(models, out=tmp_path / "fetched/out")
    whole = [(tmp_path / name / "out/model.safetensors").read_bytes() for name in ("streamed", "fetched")]
    assert whole[0] == whole[1]
    alone = smelt.merge(["hf:org/lora", "hf:org/m1"], stream=True)
    assert torch.equal(alone["norm.weight"], smelt.merge(["hf:org/m0", "hf:org/m1"])["norm.weight"])


def test_what_the_hub_has_not_is_said_in_one_line(hub: StandInHub, tmp_path: Path) -> None:
    hub.contents.add_model("org/pickled", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    hub.contents.add_model("org/gated", tmp_path / "models/m1", gated=True)
    wrong = {
        "hf:org/none": "is not on the Hugging Face Hub",
        "hf:org/m1@other": "has no such revision",
        "hf:org/pickled": "holds no safetensors, and only those are streamed",
        "hf:org/gated": "is gated",
    }
    for ref, said in wrong.items():
        with pytest.raises(RecipeError) as found:
            smelt.merge(["hf:org/m1", ref], out=tmp_path / "out", stream=True)
        assert said in str(found.value)
        assert "\n" not in str(found.value)


def test_the_command_has_the_flag(hub: StandInHub, tmp_path: Path, cli: Callable[..., Any]) -> None:
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    ran = cli(
        "merge", "-m", "linear", "--model", "hf:org/m1", "--model", "hf:org/m2", "--stream", "-o", tmp_path / "out"
    )
    assert ran.code == 0, ran.err
    assert not cached(tmp_path)
    ran = cli("plan", "-m", "linear", "--model", "hf:org/m1", "--model", "hf:org/m2", "--stream", "--json")
    assert json.loads(ran.out)["absent"] == []
