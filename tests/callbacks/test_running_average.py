"""A running average in a plain loop: what torch's AveragedModel computes, in float32, with everything put back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import LlamaConfig, LlamaForCausalLM

from smelt.callbacks import RunningAverage, running_average
from smelt.errors import CorruptFile, IncompatibleModels, OutputError, RecipeError


class Tied(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embed = nn.Embedding(4, 3, dtype=dtype)
        self.norm = nn.BatchNorm1d(3, dtype=dtype)
        self.head = nn.Linear(3, 4, bias=False, dtype=dtype)
        self.head.weight = self.embed.weight


def train(model: nn.Module, steps: int, after: Any, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
            for buffer in model.buffers():
                buffer += 1
        after()


def whole(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


def numbers(average: RunningAverage) -> float:
    return float(average.average()["weight"])


@pytest.mark.parametrize("device", ["cpu", "disk"])
def test_uniform_is_torch_s_averaged_model(device: str) -> None:
    model = Tied()
    theirs = AveragedModel(model)
    with running_average(model, device=device) as ours:
        train(model, 7, lambda: (ours.update(), theirs.update_parameters(model)))
        wanted = dict(theirs.module.named_parameters())
        assert ours.average().keys() == wanted.keys()
        assert all(torch.equal(ours.average()[name], wanted[name]) for name in wanted)
        ours.close()


def test_ema_is_torch_s_averaged_model() -> None:
    model = Tied()
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    with running_average(model, kind="ema", decay=0.9, warm_up=False) as ours:
        train(model, 7, lambda: (ours.update(), theirs.update_parameters(model)))
    wanted = dict(theirs.module.named_parameters())
    assert all(torch.equal(ours.average()[name], wanted[name]) for name in wanted)


def test_warm_up_lets_the_first_ones_go_soon() -> None:
    # decays 2/11 and 3/12 instead of 0.999: 1 -> 2/11 * 1 + 9/11 * 2 -> 3/12 of that + 9/12 * 3
    model = whole(1)
    with running_average(model, kind="ema", decay=0.999) as average:
        for value in (1, 2, 3):
            nn.init.constant_(model.weight, value)
            average.update()
    assert numbers(average) == pytest.approx(3 / 12 * (2 / 11 + 18 / 11) + 9 / 12 * 3)


@pytest.mark.parametrize(("words", "expected"), [({}, 3.0), ({"since": 3}, 4.0), ({"since": 2, "every": 2}, 3.0)])
def test_which_steps_count(words: dict[str, int], expected: float) -> None:
    model = whole(0)
    with running_average(model, **words) as average:
        for value in (1, 2, 3, 4, 5):
            nn.init.constant_(model.weight, value)
            average.update()
    assert numbers(average) == pytest.approx(expected)


def test_a_bf16_model_is_averaged_in_float32() -> None:
    # bfloat16 has 8 bits: between 256 and 512 it knows even numbers only, and the mean of 256 and 258 is 257
    model = whole(0).bfloat16()
    with running_average(model) as average:
        for value in (256, 258, 256, 258):
            nn.init.constant_(model.weight, value)
            average.update()
        assert numbers(average) == 257
        with average.swapped():
            assert model.weight.dtype == torch.bfloat16
            assert float(model.weight) == 256
        assert float(model.weight) == 258


def test_swapping_puts_everything_back_also_after_an_error() -> None:
    model = Tied(torch.bfloat16)
    average = RunningAverage(model)
    train(model, 3, average.update)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ZeroDivisionError), average.swapped():  # noqa: PT012 - what happens inside is the point
        assert not torch.equal(model.embed.weight, before["embed.weight"])
        assert model.head.weight is model.embed.weight
        assert torch.equal(model.norm.running_mean, before["norm.running_mean"])
        with pytest.raises(RecipeError, match="stands in the model's place"):
            average.update()
        raise ZeroDivisionError
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_data_parallel_and_compile_are_looked_through() -> None:
    import torch.distributed as dist

    model = whole(1)
    with running_average(nn.DataParallel(model)) as average:
        average.update()
        assert list(average.average()) == ["weight"]
    store = dist.HashStore()
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        with running_average(nn.parallel.DistributedDataParallel(model)) as average:
            average.update()
            assert list(average.average()) == ["weight"]
    finally:
        dist.destroy_process_group()


def test_parameters_in_parts_are_refused_with_what_to_do() -> None:
    model = whole(1)
    model.weight.ds_id = 0  # type: ignore[assignment]  # as ZeRO-3 marks them
    with pytest.raises(RecipeError, match=r"lies in parts.*smelt average RUN"):
        RunningAverage(model)


def test_a_state_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    straight, model = Tied(), Tied()
    model.load_state_dict(straight.state_dict())
    with running_average(straight, kind="ema") as through:
        train(straight, 6, through.update)
    first = RunningAverage(model, kind="ema")
    generator = copy.deepcopy(model)
    train(generator, 0, lambda: None)
    seen = 0

    def three() -> None:
        nonlocal seen
        seen += 1
        if seen <= 3:
            first.update()
        if seen == 3:
            first.save_state(tmp_path)
            second.load_state(tmp_path)
        if seen > 3:
            second.update()

    second = RunningAverage(model, kind="ema")
    train(model, 6, three)
    assert (second.steps, second.count) == (6, 6)
    assert all(torch.equal(second.average()[name], one) for name, one in through.average().items())


def test_a_state_of_another_model_or_kind_is_refused(tmp_path: Path) -> None:
    average = RunningAverage(whole(1))
    average.update()
    average.save_state(tmp_path)
    with pytest.raises(RecipeError, match="kind 'uniform', and 'ema' is asked for"):
        RunningAverage(whole(1), kind="ema").load_state(tmp_path)
    with pytest.raises(IncompatibleModels, match="another model"):
        RunningAverage(Tied()).load_state(tmp_path)
    with pytest.raises(CorruptFile, match="holds no running average"):
        RunningAverage(whole(1)).load_state(tmp_path / "none")


def test_of_a_peft_model_the_adapter_alone_is_averaged_and_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 11}
    base = LlamaForCausalLM(LlamaConfig(intermediate_size=8, num_key_value_heads=2, **sizes))
    model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"]))
    with running_average(model) as average:
        for value in (1.0, 3.0):
            with torch.no_grad():
                [one.fill_(value) for one in model.parameters() if one.requires_grad]
            average.update()
    assert len(average.average()) == 2
    average.save(tmp_path / "out")
    saved = load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert {float(one.unique()) for one in saved.values()} == {2.0}
    assert float(next(one for one in model.parameters() if one.requires_grad).unique()) == 3.0


def test_a_folder_is_written_whole_and_not_over_another(tmp_path: Path) -> None:
    model = Tied()
    with running_average(model) as average:
        train(model, 2, average.update)
    average.save(tmp_path / "out")
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert set(saved) == set(model.state_dict()) - {"head.weight"}
    assert torch.equal(saved["embed.weight"], average.average()["embed.weight"])
    with pytest.raises(OutputError, match="is there already"):
        average.save(tmp_path / "out")
    average.save(tmp_path / "out", force=True)


def test_wrong_words_are_refused() -> None:
    with pytest.raises(RecipeError, match="no kind of running average named 'mean'"):
        RunningAverage(whole(1), kind="mean")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="is not between 0 and 1"):
        RunningAverage(whole(1), kind="ema", decay=1.0)
    with pytest.raises(RecipeError, match="begins at step 5"):
        RunningAverage(whole(1), since=5).average()
    with pytest.raises(RecipeError, match="every is 0"):
        RunningAverage(whole(1), every=0)
