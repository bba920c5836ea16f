"""Adapters over one base read it once, and get the same numbers as each over its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
from checkpoints import write_model
from smelt.engine.pool import ModelPool
from smelt.formats.lora.shared_base import SharedSource, share_bases
from smelt.formats.lora.source import LoraSource
from smelt.models.references import open_ref

KEY = "model.layers.0.mlp.up_proj.weight"


def write_base(folder: Path, seed: int = 0) -> Path:
    draw = torch.Generator().manual_seed(seed)
    return write_model(folder, {KEY: torch.randn(6, 4, generator=draw).bfloat16(), "model.norm.weight": torch.ones(4)})


def write_adapter(folder: Path, base: Path | str, seed: int, dtype: torch.dtype = torch.float32) -> Path:
    draw = torch.Generator().manual_seed(seed)
    shapes = {"A": (2, 4), "B": (6, 2)}
    name = f"base_model.model.{KEY.removesuffix('.weight')}"
    folder.mkdir()
    factors = {f"{name}.lora_{p}.weight": torch.randn(s, generator=draw).to(dtype) for p, s in shapes.items()}
    save_file(factors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 1, "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def refs(tmp_path: Path) -> dict[str, str]:
    base = write_base(tmp_path / "base")
    names = {"red": 1, "green": 2, "blue": 3}
    return {"base": str(base)} | {n: f"{base}+{write_adapter(tmp_path / n, base, s)}" for n, s in names.items()}


def whole(source: Any, key: str = KEY) -> torch.Tensor:
    out = torch.empty(source.tensors[key].count)
    source.read(key, 0, out)
    return out


def test_one_base_is_shared_by_all_and_nothing_changes(refs: dict[str, str]) -> None:
    alone = {name: open_ref(ref) for name, ref in refs.items()}
    expected = {name: whole(source) for name, source in alone.items()}
    shared = share_bases(alone)
    models = [source for source in shared.values() if isinstance(source, LoraSource)]
    assert {id(model.base) for model in models} == {id(shared["base"])}
    assert isinstance(shared["base"], SharedSource)
    for _ in range(2):
        for name, source in shared.items():
            assert torch.equal(whole(source), expected[name])
    for source in shared.values():
        source.close()


def test_a_piece_is_read_once_and_no_other_is_taken_for_it(refs: dict[str, str]) -> None:
    with ModelPool.open({name: refs[name] for name in ("red", "blue")}, base=refs["base"]) as pool:
        shared = pool.base
        assert isinstance(shared, SharedSource)
        plain, inner, reads = whole(shared.inner), shared.inner.read, []
        shared.inner.read = lambda key, start, out: (reads.append((key, start)), inner(key, start, out))[1]
        for start in (0, 5, 5, 0):
            out = torch.empty(5)
            shared.read(KEY, start, out)
            assert torch.equal(out, plain[start : start + 5])
        assert reads == [(KEY, 0), (KEY, 5), (KEY, 0)]


def test_a_piece_that_is_too_large_is_not_remembered(refs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.formats.lora.shared_base._MOST", 5)
    with ModelPool.open({"red": refs["red"]}, base=refs["base"]) as pool:
        shared = pool.base
        assert isinstance(shared, SharedSource)
        plain, inner, reads = whole(shared.inner), shared.inner.read, []
        shared.inner.read = lambda key, start, out: (reads.append(out.numel()), inner(key, start, out))[1]
        for count in (5, 6, 6, 5):
            out = torch.empty(count)
            shared.read(KEY, 0, out)
            assert torch.equal(out, plain[:count])
        assert reads == [5, 6, 6]


def test_eight_bit_factors_are_read_with_their_scaling(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base")
    adapter = write_adapter(tmp_path / "small", base, 1, torch.float8_e4m3fn)
    source = open_ref(f"{base}+{adapter}")
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randn(shape, generator=draw).to(torch.float8_e4m3fn).float() for shape in ((2, 4), (6, 2)))
    expected = whole(open_ref(str(base))).view(6, 4) + 0.5 * b @ a
    assert torch.equal(whole(source).view(6, 4), expected)


def test_adapters_over_different_bases_are_told_and_for_low_rank_merges_refused(tmp_path: Path) -> None:
    one, other = write_base(tmp_path / "one"), write_base(tmp_path / "other", seed=9)
    copy = write_base(tmp_path / "copy")
    models = {"red": f"{one}+{write_adapter(tmp_path / 'red', one, 1)}"}
    models["blue"] = f"{other}+{write_adapter(tmp_path / 'blue', other, 2)}"
    notes = smelt.plan(models, base=str(one), method="ties").notes
    assert any("blue is an adapter over" in note and "the difference between the two" in note for note in notes)
    for words in ({"method": "average", "lora": 2}, {"method": ["knots", "ties"]}):
        with pytest.raises(smelt.IncompatibleModels, match=r"blue is an adapter over .*other, but the base is .*one"):
            smelt.plan(models, base=str(one), **words)
    models["blue"] = f"{copy}+{tmp_path / 'blue'}"
    assert not smelt.plan(models, base=str(one), method="average", lora=2).notes


def test_an_adapter_whose_base_is_not_found_says_how_to_give_it(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "lost", "gone/away/base", 1)
    with pytest.raises(smelt.RecipeError, match=r"the base that this adapter names, 'gone/away/base'.*BASE\+"):
        smelt.plan([str(adapter)], method="average")


def test_an_adapter_may_name_its_base_by_a_path_from_its_own_folder(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base")
    adapter = write_adapter(tmp_path / "near", "../base", 1)
    assert torch.equal(whole(open_ref(str(adapter))), whole(open_ref(f"{base}+{adapter}")))
