"""Adapters over mixtures of experts: read over both layouts, written under names that PEFT knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file

import smelt
from tiny_experts import logits, made, saved, saved_as_module

REST = ["*norm*", "*embed*", "lm_head*", "routers"]


@pytest.fixture(params=[saved, saved_as_module], ids=["one by one", "one tensor"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A base, the average of two models as an adapter over it that loses nothing, and that average."""
    base, one, two = (request.param(made("Mixtral", seed), tmp_path / str(seed)) for seed in range(3))
    smelt.merge({"a": one, "b": two}, base=base, method="average", skip=REST, lora=8, out=tmp_path / "lora")
    smelt.merge({"a": one, "b": two}, base=base, method="average", skip=REST, out=tmp_path / "whole")
    return tmp_path, load(tmp_path / "whole")


def load(folder: Path) -> Any:
    return transformers.MixtralForCausalLM.from_pretrained(folder).eval()


def test_peft_loads_what_is_written(adapter: tuple[Path, Any]) -> None:
    folder, whole = adapter
    adapted = PeftModel.from_pretrained(load(folder / "0"), str(folder / "lora")).eval()
    torch.testing.assert_close(logits(adapted), logits(whole), rtol=1e-4, atol=1e-5)


def test_it_is_read_over_the_base_in_either_layout(adapter: tuple[Path, Any]) -> None:
    folder, whole = adapter
    saved_as_module(made("Mixtral", 0), folder / "module")
    for base in ("0", "module"):
        out = folder / f"from-{base}"
        smelt.merge({"a": f"{folder / base}+{folder / 'lora'}"}, method="passthrough", out=out)
        torch.testing.assert_close(logits(load(out)), logits(whole), rtol=1e-4, atol=1e-5)
        assert load_file(out / "model.safetensors").keys() == load_file(folder / base / "model.safetensors").keys()


def test_names_that_only_smelt_has_are_refused(tmp_path: Path) -> None:
    """No library knows Granite's experts one by one."""
    base, one = (saved(made("GraniteMoe", seed), tmp_path / str(seed)) for seed in range(2))
    with pytest.raises(smelt.SmeltError, match=r"cannot hold the change of .*experts\.0\.down_proj"):
        smelt.merge({"a": one}, base=base, method="average", skip=REST, lora=2, out=tmp_path / "lora")
    smelt.merge({"a": one}, base=base, method="average", skip=[*REST, "experts"], lora=2, out=tmp_path / "lora")
