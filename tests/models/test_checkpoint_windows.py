"""Which checkpoints of a training run are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import state, write_model
from smelt.errors import CorruptFile, RecipeError
from smelt.models.training_checkpoints import choose_checkpoints, find_checkpoints


def run_of(folder: Path, *names: str) -> Path:
    for name in names:
        write_model(folder / name, state())
    return folder


def numbers(folder: Path, **words: int) -> list[int]:
    return [step.number for step in choose_checkpoints(folder, **words)]


@pytest.mark.parametrize("pattern", ["checkpoint-{}", "step_{}", "global_step{}", "epoch-{}", "{}"])
def test_steps_are_ordered_by_their_numbers_whatever_they_are_called(tmp_path: Path, pattern: str) -> None:
    run_of(tmp_path, *(pattern.format(number) for number in (1000, 500, 20)))
    (tmp_path / "runs").mkdir()
    (tmp_path / "trainer_state.json").write_text("{}")
    assert numbers(tmp_path) == [20, 500, 1000]


def test_a_window_is_counted_from_the_end(tmp_path: Path) -> None:
    run_of(tmp_path, *(f"checkpoint-{number}" for number in range(100, 1100, 100)))
    assert numbers(tmp_path, last=3) == [800, 900, 1000]
    assert numbers(tmp_path, last=3, until=500) == [300, 400, 500]
    assert numbers(tmp_path, every=4) == [200, 600, 1000]
    assert numbers(tmp_path, since=250, every=2, until=800) == [400, 600, 800]


def test_files_count_as_steps_too(tmp_path: Path) -> None:
    for number in (2, 10):
        (run_of(tmp_path / "made", "x") / "x" / "model.safetensors").rename(tmp_path / f"step-{number}.safetensors")
    assert [step.name for step in find_checkpoints(tmp_path)] == ["step-2", "step-10"]


def test_an_unfinished_checkpoint_is_named_if_it_lies_in_the_window(tmp_path: Path) -> None:
    run_of(tmp_path, "checkpoint-1", "checkpoint-2")
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"checkpoint-3: holds no weights.*until=2"):
        choose_checkpoints(tmp_path)
    assert numbers(tmp_path, until=2) == [1, 2]


def test_an_unfinished_first_checkpoint_is_left_out_from_the_next_one_on(tmp_path: Path) -> None:
    run_of(tmp_path, "checkpoint-20", "checkpoint-30")
    (tmp_path / "checkpoint-10").mkdir()
    with pytest.raises(CorruptFile, match=r"checkpoint-10: holds no weights.*leave it out \(since=20\)"):
        choose_checkpoints(tmp_path)
    assert numbers(tmp_path, since=20) == [20, 30]
    with pytest.raises(CorruptFile, match="choose another"):
        choose_checkpoints(tmp_path, until=10)


def test_folders_that_are_no_run_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such folder"):
        find_checkpoints(tmp_path / "none")
    with pytest.raises(RecipeError, match="holds no checkpoints"):
        find_checkpoints(tmp_path)
    run_of(tmp_path, "checkpoint-1", "checkpoint-2")
    with pytest.raises(RecipeError, match=r"the last 3 steps are asked for, and there are 2 \(1, 2\)"):
        choose_checkpoints(tmp_path, last=3)
    with pytest.raises(RecipeError, match="between 5 and the end; its steps run from 1 to 2"):
        choose_checkpoints(tmp_path, since=5)
    run_of(tmp_path, "epoch-1")
    with pytest.raises(RecipeError, match="several kinds of checkpoints"):
        find_checkpoints(tmp_path)


def test_one_step_under_two_names_is_refused(tmp_path: Path) -> None:
    run_of(tmp_path, "step-1", "step_01")
    with pytest.raises(RecipeError, match="are the same step"):
        find_checkpoints(tmp_path)


def test_a_distributed_checkpoint_counts_once_its_table_is_written(tmp_path: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    for number in (1, 2, 3):
        place = tmp_path / f"checkpoint-{number}" / "pytorch_model_fsdp_0"
        dcp.save({"model": {"w": torch.ones(2)}}, checkpoint_id=str(place), no_dist=True)
    assert numbers(tmp_path) == [1, 2, 3]
    (tmp_path / "checkpoint-3" / "pytorch_model_fsdp_0" / ".metadata").unlink()
    with pytest.raises(CorruptFile, match=r"checkpoint-3: holds no weights.*not finished.*until=2"):
        choose_checkpoints(tmp_path)
    assert numbers(tmp_path, until=2) == [1, 2]
