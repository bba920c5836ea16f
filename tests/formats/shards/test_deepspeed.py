"""ZeRO's checkpoints: parts of all ranks are the parameters that they were cut from; DeepSpeed's own script agrees."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import CONFIG, write_model
from smelt.errors import CorruptFile
from smelt.formats.open import open_path
from smelt.formats.source import read_whole
from training_shards import write_zero

WEIGHTS = {"embed.weight": torch.arange(35.0).view(7, 5), "a.weight": torch.rand(9, 5), "one": torch.tensor([4.0])}
BIASES = {"a.bias": torch.rand(9), "b.bias": torch.rand(2)}
FROZEN = {"frozen.weight": torch.rand(3, 5).bfloat16()}
BUFFERS = {"scale": torch.tensor([2.0, 3.0])}


def write(folder: Path, stage: int, ranks: int = 3, **words: Any) -> Path:
    shared = {"head.weight": "embed.weight"}
    return write_zero(
        folder, [WEIGHTS, BIASES], stage=stage, ranks=ranks, frozen=FROZEN, buffers=BUFFERS, shared=shared, **words
    )


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_parts_of_all_ranks_are_the_float32_weights(tmp_path: Path, stage: int, ranks: int) -> None:
    source = open_path(write(tmp_path / "run", stage, ranks), allow_pickle=True)
    wanted = {**WEIGHTS, **BIASES, **FROZEN, **BUFFERS}
    assert source.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(read_whole(source, name), tensor), name
    assert source.tied == {"head.weight": "embed.weight"}
    assert f"ZeRO stage {stage}" in source.notes[0]
    assert "step 500" in source.notes[0]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_s_own_script_puts_the_same_together(tmp_path: Path, stage: int) -> None:
    script = pytest.importorskip("deepspeed.utils.zero_to_fp32")
    run = write(tmp_path / "run", stage)
    source = open_path(run, allow_pickle=True)
    wanted = script.get_fp32_state_dict_from_zero_checkpoint(str(run))
    assert wanted.keys() == source.tensors.keys() | source.tied.keys()
    for name, tensor in wanted.items():
        assert torch.equal(read_whole(source, source.tied.get(name, name)).float(), tensor.float()), name


@pytest.mark.skipif(sys.platform != "linux", reason="DeepSpeed trains on Linux")
def test_what_deepspeed_saved_is_what_its_script_reads(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    from deepspeed_run import train_by_deepspeed

    train_by_deepspeed(tmp_path / "run", stage=3, ranks=2)
    script = pytest.importorskip("deepspeed.utils.zero_to_fp32")
    source = open_path(tmp_path / "run", allow_pickle=True)
    for name, tensor in script.get_fp32_state_dict_from_zero_checkpoint(str(tmp_path / "run")).items():
        assert torch.equal(read_whole(source, source.tied.get(name, name)).float(), tensor.float()), name


def test_without_zero_the_module_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "global_step7"
    place.mkdir()
    said = {"module": {"w": torch.ones(2, 3).half()}, "param_shapes": None, "global_steps": 7}
    torch.save(said, place / "mp_rank_00_model_states.pt")
    source = open_path(place, allow_pickle=True)
    assert torch.equal(read_whole(source, "w"), torch.ones(2, 3).half())
    assert "no ZeRO" in source.notes[0]


def test_it_needs_permission_as_other_pickles_do_and_inspect_does_not(tmp_path: Path) -> None:
    run = write(tmp_path / "run", 3)
    with pytest.raises(CorruptFile, match=r"pickles.*allow_pickle=True"):
        open_path(run)
    facts = smelt.inspect(run)
    assert facts.format == "DeepSpeed checkpoint"
    assert facts.dtypes["F32"].parameters == 35 + 45 + 1 + 9 + 2 + 2
    assert any("float32 weights of 3 ranks" in note for note in facts.notes)


def test_a_run_of_such_checkpoints_is_averaged(tmp_path: Path) -> None:
    write_model(tmp_path / "run", {}, CONFIG)
    (tmp_path / "run" / "model.safetensors").unlink()
    for step in (10, 20):
        group = {"w": torch.full((3, 3), float(step))}
        write_zero(tmp_path / "run" / f"checkpoint-{step}", [group], stage=3, ranks=2, step=step)
    smelt.average(tmp_path / "run", out=tmp_path / "out", allow_pickle=True)
    assert read_whole(open_path(tmp_path / "out"), "w").unique().tolist() == [15.0]


def _other_step(tag: Path) -> None:
    said = torch.load(tag / "zero_pp_rank_1_mp_rank_00_model_states.pt", weights_only=False)
    torch.save({**said, "global_steps": 400}, tag / "zero_pp_rank_1_mp_rank_00_model_states.pt")


def _other_world(tag: Path) -> None:
    name = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    said = torch.load(tag / name, weights_only=False)
    said["optimizer_state_dict"]["partition_count"] = 4
    torch.save(said, tag / name)


OPTIMISER = "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda tag: (tag / OPTIMISER.format(2)).unlink(), "run had 3 ranks, and there are 2 files.*rank 2 is missing"),
        (lambda tag: [(tag / OPTIMISER.format(n)).unlink() for n in range(3)], r"\*_optim_states\.pt are missing"),
        (lambda tag: (tag / "zero_pp_rank_0_mp_rank_00_model_states.pt").unlink(), "rank 0 is missing"),
        (lambda tag: (tag / "zero_pp_rank_1_mp_rank_00_model_states.pt").unlink(), "there are 2 files"),
        (lambda tag: os.truncate(tag / OPTIMISER.format(1), 900), "cut off"),
        (_other_step, "rank 0 is of step 500 and rank 1 of step 400"),
        (_other_world, "run had 4 ranks"),
        (lambda tag: tag.rename(tag.with_name("elsewhere")), "there is no such folder"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_by_name(tmp_path: Path, damage: Any, said: str) -> None:
    run = write(tmp_path / "run", 3)
    (run / "zero_to_fp32.py").write_text("")
    damage(run / "global_step500")
    with pytest.raises(CorruptFile, match=said):
        open_path(run, allow_pickle=True)


def test_model_parallel_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    run = write(tmp_path / "run", 2)
    (run / "global_step500" / "mp_rank_01_model_states.pt").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"several model-parallel ranks.*ds_to_universal"):
        open_path(run, allow_pickle=True)
