"""A training state in one file: which of its weights are read, by what rule, and what is said of the rest."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import smelt
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.open import open_path
from smelt.formats.source import Source, read_whole


def values(source: Source) -> dict[str, float]:
    return {name: float(read_whole(source, name).reshape(-1)[0]) for name in source.tensors}


def save(path: Path, **state: Any) -> Path:
    torch.save(state, path)
    return path


def test_timm_s_averaged_weights_are_chosen_by_name(tmp_path: Path) -> None:
    file = save(
        tmp_path / "last.pth.tar.pt",
        arch="resnet18",
        args=Namespace(lr=0.1),
        epoch=3,
        state_dict={"w": torch.zeros(3)},
        optimizer={"state": {0: {"exp_avg": torch.ones(3)}}},
        state_dict_ema={"w": torch.full((3,), 7.0)},
    )
    source = open_path(file, allow_pickle=True)
    assert values(source) == {"w": 0.0}
    assert any("averaged weights too (#ema)" in note for note in source.notes)
    assert any("1 entry of the optimiser" in note for note in source.notes)
    merged = smelt.merge({"a": str(file), "b": f"{file}#ema"}, allow_pickle=True)
    assert merged["w"].tolist() == [3.5, 3.5, 3.5]
    facts = smelt.inspect(f"{file}#ema")
    assert facts.format == "training state (pickle)"
    assert facts.parameters == 3


def test_diffusers_list_of_averaged_weights_gets_the_model_s_names(tmp_path: Path) -> None:
    diffusers = pytest.importorskip("diffusers.training_utils")
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    ema = diffusers.EMAModel(model.parameters(), decay=0.5)
    with torch.no_grad():
        [one.add_(1) for one in model.parameters()]
    ema.step(model.parameters())
    file = save(tmp_path / "state.pt", model=model.state_dict(), ema=ema.state_dict())
    source = open_path(file, allow_pickle=True, part="ema")
    for name, wanted in zip(model.state_dict(), ema.shadow_params, strict=True):
        assert torch.equal(read_whole(source, name), wanted)


def test_a_list_that_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    model = {"w": torch.zeros(3), "buffer": torch.zeros(1)}
    file = save(tmp_path / "state.pt", model=model, ema={"shadow_params": [torch.zeros(3)]})
    with pytest.raises(CorruptFile, match="a list without names, and do not fit the 2 tensors"):
        open_path(file, allow_pickle=True)


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = save(tmp_path / "state.pt", model={"w": torch.zeros(3)}, epoch=1)
    assert values(open_path(file, allow_pickle=True)) == {"w": 0.0}
    with pytest.raises(RecipeError, match="no part named 'ema'"):
        open_path(file, allow_pickle=True, part="ema")
    plain = save(tmp_path / "plain.pt", w=torch.zeros(3))
    with pytest.raises(RecipeError, match="holds a plain table of tensors"):
        open_path(plain, allow_pickle=True, part="ema")


def test_one_tensor_under_two_names_is_tied(tmp_path: Path) -> None:
    one = torch.ones(2, 2)
    file = save(tmp_path / "state.pt", model={"embed": one, "head": one}, step=1)
    source = open_path(file, allow_pickle=True)
    assert (list(source.tensors), source.tied) == (["embed"], {"head": "embed"})


def test_it_needs_permission(tmp_path: Path) -> None:
    file = save(tmp_path / "state.pt", model={"w": torch.zeros(3)}, step=1)
    with pytest.raises(CorruptFile, match="allow_pickle=True"):
        open_path(file)


class _Attack:
    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch attacked",)


def test_nothing_in_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = save(tmp_path / "state.pt", model={"w": torch.zeros(3)}, args=_Attack())
    assert values(open_path(file, allow_pickle=True)) == {"w": 0.0}
    assert not (tmp_path / "attacked").exists()
