"""The callbacks in a real Trainer: what is averaged, evaluated, saved, resumed and merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

import smelt
from smelt.callbacks import MergeCheckpointsCallback, RunningAverageCallback
from smelt.errors import CorruptFile, OutputError

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11}


class Texts(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = (torch.arange(5) * (index + 1)) % 11
        return {"input_ids": words, "labels": words}


class Record(TrainerCallback):  # type: ignore[misc]
    """The weights after every step, and those that are evaluated."""

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []
        self.evaluated: list[torch.Tensor] = []

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.steps.append(model.lm_head.weight.detach().clone())

    def on_prediction_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.evaluated.append(model.lm_head.weight.detach().clone())


def trainer(folder: Path, *callbacks: Any, steps: int = 4, **words: Any) -> tuple[Trainer, Record]:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(intermediate_size=8, num_key_value_heads=2, **SIZES))
    given = {
        "max_steps": steps,
        "per_device_train_batch_size": 2,
        "learning_rate": 0.05,
        "report_to": [],
        "save_steps": 2,
        "save_strategy": "steps",
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 1,
    }
    args = TrainingArguments(output_dir=str(folder), **{**given, **words})
    record = Record()
    made = Trainer(model, args, train_dataset=Texts(), eval_dataset=Texts(), callbacks=[record, *callbacks])
    return made, record


def test_the_average_is_evaluated_and_written_and_training_goes_on(tmp_path: Path) -> None:
    average = RunningAverageCallback(evaluate=True)
    made, record = trainer(tmp_path / "run", average, eval_strategy="steps", eval_steps=2)
    made.train()
    plain, other = trainer(tmp_path / "plain")
    plain.train()
    assert all(torch.equal(a, b) for a, b in zip(record.steps, other.steps, strict=True))
    mean = torch.stack(record.steps).mean(0)
    assert torch.allclose(record.evaluated[-1], mean, atol=1e-6)
    assert torch.allclose(record.evaluated[0], torch.stack(record.steps[:2]).mean(0), atol=1e-6)
    assert torch.equal(made.model.lm_head.weight, record.steps[-1])
    saved = LlamaForCausalLM.from_pretrained(tmp_path / "run" / "averaged")
    assert torch.allclose(saved.lm_head.weight, mean, atol=1e-6)
    assert (tmp_path / "run" / "checkpoint-2" / "running_average" / "running_average.json").is_file()


def test_a_resumed_run_goes_on_with_its_average(tmp_path: Path) -> None:
    straight = RunningAverageCallback(kind="ema", decay=0.5, warm_up=False, out=tmp_path / "straight")
    trainer(tmp_path / "run", straight)[0].train()
    again = RunningAverageCallback(kind="ema", decay=0.5, warm_up=False, out=tmp_path / "again")
    made, record = trainer(tmp_path / "run", again)
    made.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert len(record.steps) == 2
    wanted, found = straight.average.average(), again.average.average()  # type: ignore[union-attr]
    assert all(torch.allclose(found[name], wanted[name], atol=1e-7) for name in wanted)
    assert again.average.count == 4  # type: ignore[union-attr]


def test_a_checkpoint_without_an_average_is_refused_with_a_way_on(tmp_path: Path) -> None:
    trainer(tmp_path / "run")[0].train()
    made, _ = trainer(tmp_path / "run", RunningAverageCallback())
    with pytest.raises(CorruptFile, match=r"has no running average; begin a new one later \(since=3\)"):
        made.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    later = RunningAverageCallback(since=3)
    trainer(tmp_path / "run", later)[0].train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert later.average.count == 2  # type: ignore[union-attr]


def test_an_output_that_is_there_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.safetensors").write_bytes(b"")
    made, record = trainer(tmp_path / "run", RunningAverageCallback(out=tmp_path / "out"))
    with pytest.raises(OutputError, match="is there already"):
        made.train()
    assert not record.steps


def test_an_average_that_never_began_says_so(tmp_path: Path) -> None:
    made, _ = trainer(tmp_path / "run", RunningAverageCallback(since=100), steps=2)
    with pytest.warns(UserWarning, match="training ended at step 2, and the average begins at step 100"):
        made.train()


def test_the_last_checkpoints_are_merged_at_the_end(tmp_path: Path) -> None:
    made, record = trainer(
        tmp_path / "run",
        MergeCheckpointsCallback(last=2),
        MergeCheckpointsCallback(last=2, method="slerp", t=0.5, out=tmp_path / "slerp"),
    )
    made.train()
    saved = LlamaForCausalLM.from_pretrained(tmp_path / "run" / "merged")
    assert torch.allclose(saved.lm_head.weight, (record.steps[1] + record.steps[3]) / 2, atol=1e-6)
    assert smelt.inspect(tmp_path / "slerp").made.methods == ("slerp",)  # type: ignore[union-attr]
