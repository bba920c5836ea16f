"""Distributed checkpoints of torch, saved by two processes, against torch's own way to put them together."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import smelt
from checkpoints import CONFIG, state, write_model
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.open import open_path
from smelt.formats.source import Source, read_whole
from training_shards import save_by_two_ranks


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save_by_two_ranks(folder)
    return folder


def same(source: Source, wanted: dict[str, torch.Tensor]) -> bool:
    return source.tensors.keys() == wanted.keys() and all(
        torch.equal(read_whole(source, name), wanted[name]) for name in wanted
    )


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved / "axes", tmp_path / "axes"))


@pytest.mark.parametrize("kind", ["axes", "hf"])
def test_shards_along_any_axis_are_the_whole_tensors(saved: Path, kind: str) -> None:
    wanted = torch.load(saved / "whole.pt")["axes"]
    assert same(open_path(saved / kind), wanted)


def test_any_run_of_elements_has_the_bits_of_the_whole(saved: Path) -> None:
    source, wanted = open_path(saved / "axes"), torch.load(saved / "whole.pt")["axes"]
    for name, tensor in wanted.items():
        flat = tensor.reshape(-1).float()
        for start in range(flat.numel()):
            for stop in range(start + 1, flat.numel() + 1):
                out = torch.empty(stop - start)
                source.read(name, start, out)
                assert torch.equal(out, flat[start:stop]), (name, start, stop)


def test_fsdp2_is_what_torch_puts_together_and_the_optimiser_is_left_out(saved: Path, tmp_path: Path) -> None:
    dcp_to_torch_save(saved / "fsdp2", tmp_path / "whole.pt")
    source = open_path(saved / "fsdp2")
    assert same(source, torch.load(tmp_path / "whole.pt", weights_only=False)["model"])
    assert same(source, torch.load(saved / "fsdp2.pt"))
    assert any("of the optimiser" in note for note in source.notes)
    assert any("written by 2 ranks" in note for note in source.notes)


def test_two_checkpoints_merge_in_the_vector_machine_with_the_run_s_config(saved: Path, tmp_path: Path) -> None:
    run = write_model(tmp_path / "run", {}, CONFIG)
    (run / "model.safetensors").unlink()
    for step in (1, 2):
        shutil.copytree(saved / "fsdp2", run / f"checkpoint-{step}" / "pytorch_model_fsdp_0")
    smelt.average(run, out=tmp_path / "out")
    merged = open_path(tmp_path / "out")
    assert same(merged, torch.load(saved / "fsdp2.pt"))
    assert (tmp_path / "out" / "config.json").is_file()
    assert all(merged.has_bytes(name) for name in merged.tensors)
    trained = open_path(run / "checkpoint-1")
    assert trained.has_bytes("block.weight")
    assert trained.notes[0].endswith("written by 2 ranks, step 1")


def test_inspect_says_what_it_is(saved: Path) -> None:
    facts = smelt.inspect(saved / "fsdp2")
    assert facts.format == "distributed checkpoint (torch)"
    assert facts.parameters == 7 * 5 * 2 + 3 * 5 + 3 + 2
    assert any("2 ranks" in note for note in facts.notes)
    assert facts.dtypes.keys() == {"F32"}
    assert smelt.inspect(saved / "hf").format == "distributed checkpoint (torch, safetensors)"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / ".metadata").unlink(), "not finished"),
        (lambda folder: (folder / "__1_0.distcp").unlink(), r"__1_0\.distcp is missing; copy the files of every rank"),
        (lambda folder: os.truncate(folder / "__1_0.distcp", 3000), "it is cut off"),
        (lambda folder: (folder / ".metadata").write_bytes(b"\x80\x04]."), "no table of a distributed checkpoint"),
        (lambda folder: (folder / ".metadata").write_bytes(b""), "cannot be read"),
    ],
)
def test_a_half_written_checkpoint_is_refused_by_name(copy: Path, damage: Any, said: str) -> None:
    damage(copy)
    with pytest.raises(CorruptFile, match=said):
        open_path(copy)


def test_shards_of_two_saves_are_told_apart_when_they_are_read(copy: Path, tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({"rows": torch.zeros(3, 3).half()}, checkpoint_id=str(tmp_path / "other"), no_dist=True)
    content = (tmp_path / "other" / "__0_0.distcp").read_bytes()
    whole = (copy / "__0_0.distcp").read_bytes()
    (copy / "__0_0.distcp").write_bytes(content + whole[len(content) :])
    source = open_path(copy)
    with pytest.raises(CorruptFile, match=r"shards of two saves may be mixed|cut off|damaged|goes beyond"):
        [read_whole(source, name) for name in source.tensors]


class _Attack:
    def __reduce__(self) -> Any:
        return os.system, ("touch attacked",)


def test_a_table_that_would_run_something_is_refused_and_nothing_runs(
    copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for attack in (_Attack(), {"a": _Attack()}, [print], eval):
        (copy / ".metadata").write_bytes(pickle.dumps(attack))
        with pytest.raises(CorruptFile, match=r"it names \S+, which no table of tensors needs"):
            open_path(copy)
    assert not (tmp_path / "attacked").exists()


def test_a_table_cannot_change_the_reader_for_the_next_one(copy: Path, saved: Path) -> None:
    # BUILD with a second state sets attributes of whatever is on the stack, here of the class of a record.
    name = b"ctorch.distributed.checkpoint.metadata\nMetadata\n"
    (copy / ".metadata").write_bytes(name + b"(N}(X\x0c\x00\x00\x00__setstate__NX\x05\x00\x00\x00givenNutb.")
    with pytest.raises(CorruptFile):
        open_path(copy)
    assert same(open_path(saved / "axes"), torch.load(saved / "whole.pt")["axes"])


def test_a_name_outside_of_the_folder_is_refused(copy: Path) -> None:
    table = (copy / ".metadata").read_bytes().replace(b"__1_0.distcp", b"../_0.distcp")
    (copy / ".metadata").write_bytes(table)
    with pytest.raises(CorruptFile, match="which is not in this folder"):
        open_path(copy)


def test_whole_files_are_read_before_the_shards_that_they_came_from(saved: Path, tmp_path: Path) -> None:
    whole = write_model(tmp_path / "both", {"w": torch.ones(2)})
    shutil.copytree(saved / "hf", whole / "sharded")
    assert same(open_path(whole), {"w": torch.ones(2)})
    (whole / "model.safetensors").unlink()
    assert same(open_path(whole), torch.load(saved / "whole.pt")["axes"])


def test_a_missing_rank_between_others_is_named_in_safetensors_shards(saved: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(saved / "hf", tmp_path / "hf"))
    (copy / "shard-00001-model-00001-of-00001.safetensors").unlink()
    with pytest.raises(CorruptFile, match="rank 1 of 2 are missing"):
        open_path(copy)


def test_averaged_weights_are_chosen_by_name_and_never_silently(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    both = {"model": {"w": torch.zeros(3)}, "ema": {"w": torch.ones(3)}, "optimizer": {"w": torch.full((3,), 5.0)}}
    dcp.save(both, checkpoint_id=str(tmp_path / "both"), no_dist=True)
    source = open_path(tmp_path / "both")
    assert same(source, both["model"])
    assert any("averaged weights too (#ema)" in note for note in source.notes)
    assert smelt.merge({"a": f"{tmp_path}/both#ema", "b": f"{tmp_path}/both"})["w"].tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(RecipeError, match=r"no part named 'emma'.*did you mean 'ema'"):
        smelt.merge({"a": f"{tmp_path}/both#emma", "b": f"{tmp_path}/both"})
    two = {"actor": {"w": torch.zeros(3)}, "critic": {"w": torch.ones(3)}}
    dcp.save(two, checkpoint_id=str(tmp_path / "two"), no_dist=True)
    with pytest.raises(RecipeError, match=r"holds several models.*#actor or .*#critic"):
        open_path(tmp_path / "two")
    assert same(open_path(tmp_path / "two", part="critic"), two["critic"])
    plain = write_model(tmp_path / "plain", state())
    with pytest.raises(RecipeError, match="no part of a model named 'ema'"):
        smelt.merge({"a": f"{plain}#ema", "b": str(plain)})


def test_files_of_every_rank_are_joined(saved: Path, tmp_path: Path) -> None:
    source = open_path(saved / "ranks", allow_pickle=True)
    assert same(source, torch.load(saved / "fsdp2.pt"))
    assert smelt.inspect(saved / "ranks").format == "FSDP checkpoint, a file for each rank"
    with pytest.raises(CorruptFile, match=r"are pickles.*allow_pickle=True"):
        open_path(saved / "ranks")
    copy = Path(shutil.copytree(saved / "ranks", tmp_path / "ranks"))
    (copy / "model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(CorruptFile, match="the run had 2 ranks, and the file of rank 1 is missing"):
        open_path(copy, allow_pickle=True)
    shutil.copy(copy / "model_world_size_2_rank_0.pt", copy / "model_world_size_2_rank_1.pt")
    with pytest.raises(CorruptFile, match="lies outside of its shape"):
        open_path(copy, allow_pickle=True)


def test_wrappers_of_modules_leave_no_trace_in_names(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    wrapped = {"_orig_mod.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.w": torch.ones(2)}
    dcp.save({"app": {"model": wrapped}}, checkpoint_id=str(tmp_path / "x"), no_dist=True)
    assert same(open_path(tmp_path / "x"), {"layers.0.w": torch.ones(2)})


def test_tensors_that_lie_in_another_order_are_turned(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    turned = {"w": torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last), "t": torch.rand(3, 5).t()}
    dcp.save(turned, checkpoint_id=str(tmp_path / "x"), no_dist=True)
    source = open_path(tmp_path / "x")
    assert same(source, turned)
    out = torch.empty(5)
    source.read("t", 2, out)
    assert torch.equal(out, turned["t"].reshape(-1)[2:7])
