"""Weights that are codes, and that no format reads as numbers, are known by the scales beside them, and refused."""

import pytest
import torch

import smelt
from checkpoints import write_model

U8, I8, I32, FP8 = torch.uint8, torch.int8, torch.int32, torch.float8_e4m3fn
PACKED = {
    "mxfp4": {"mlp.experts.down_proj_blocks": U8, "mlp.experts.down_proj_scales": U8},
    "bitsandbytes 4 bit": {"fc.weight": U8, "fc.weight.absmax": U8, "fc.weight.quant_state.bitsandbytes__nf4": U8},
    "bitsandbytes 8 bit": {"fc.weight": I8, "fc.SCB": torch.float32},
    "gptq and awq": {"fc.qweight": I32, "fc.qzeros": I32, "fc.scales": torch.float16},
    "compressed-tensors": {"fc.weight_packed": I32, "fc.weight_scale": torch.bfloat16},
    "fp8": {"fc.weight": FP8, "fc.weight_scale_inv": torch.float32},
    "quanto": {"fc.weight._data": I8, "fc.weight._scale": torch.float32},
}
UNREAD = {
    "quanto": {"fc.weight._data": I8, "fc.weight._scale": torch.float32},
    "hqq": {"fc.W_q": U8, "fc.scale": torch.float32},
    "aqlm": {"fc.codes": torch.int16, "fc.scales": torch.float16},
}


def model(value, extra):
    numbers = {"attn.weight": torch.full((4, 4), value)}
    return numbers | {name: torch.ones(4, 4).to(dtype) for name, dtype in extra.items()}


@pytest.mark.parametrize("kind", PACKED)
def test_codes_in_memory_are_refused(kind):
    states = [model(float(n), PACKED[kind]) for n in range(3)]
    first = next(iter(PACKED[kind]))
    with pytest.raises(smelt.IncompatibleModels, match="merge a dequantised copy") as refused:
        smelt.merge(states[1:], base=states[0], method="ties")
    assert [fault.split(" is quantised")[0] for fault in refused.value.faults] == [
        f"{name}: {first!r}" for name in ("base", "model-1", "model-2")
    ]


@pytest.mark.parametrize("kind", UNREAD)
def test_codes_in_files_that_nothing_reads_are_refused(tmp_path, kind):
    folders = [write_model(tmp_path / str(n), model(float(n), UNREAD[kind])) for n in range(3)]
    codes, scales = UNREAD[kind]
    with pytest.raises(smelt.RecipeError, match="dequantise it with the library that wrote it") as refused:
        smelt.merge(folders[1:], base=folders[0], method="ties", out=tmp_path / "out")
    for folder in folders:
        assert f"{folder}: {codes!r} is quantised with {scales!r}, in a way that is not read" in str(refused.value)
    with pytest.raises(smelt.RecipeError, match="in a way that is not read"):
        smelt.check_models([str(folder) for folder in folders[1:]], base=str(folders[0]))


def test_integers_without_scales_are_copied_as_before(tmp_path):
    extra = {"embeddings.position_ids": torch.int64, "mask": torch.bool, "steps": I32, "logit_scale": torch.float32}
    folders = [write_model(tmp_path / str(n), model(float(n), extra)) for n in range(2)]
    merged = smelt.merge(folders, method="average")
    assert merged["attn.weight"][0, 0].item() == 0.5
    assert torch.equal(merged["steps"], torch.ones(4, 4).to(I32))
