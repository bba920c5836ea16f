"""Mixtures of experts in GGUF files: stacks of llama.cpp read as the experts of Hugging Face checkpoints."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from gguf_models import MOE, converted, expert_state, moe, write_gguf
from smelt.formats.gguf.source import GGUFSource
from smelt.formats.source import read_whole

FIELDS = {"attention.head_count": 4, "attention.head_count_kv": 2, "block_count": 2}
KINDS = gguf.GGMLQuantizationType


def opened(folder: Path, architecture: str, kind: Any = None) -> tuple[GGUFSource, dict[str, torch.Tensor]]:
    model = moe(architecture)
    state = expert_state(model, folder / "hf")
    path = write_gguf(folder / "m.gguf", architecture, converted(architecture, state, model.config), FIELDS, kind)
    return GGUFSource(path), state


@pytest.mark.parametrize("architecture", MOE)
def test_every_tensor_of_the_checkpoint_comes_back_under_its_name(tmp_path: Path, architecture: str) -> None:
    source, state = opened(tmp_path, architecture)
    assert source.notes == []
    assert source.tensors.keys() == state.keys()
    for key, tensor in state.items():
        assert source.tensors[key].shape == tensor.shape
        assert torch.equal(read_whole(source, key, torch.float32), tensor.float()), key


@pytest.mark.parametrize("architecture", MOE)
@pytest.mark.parametrize("kind", [KINDS.Q8_0, KINDS.MXFP4])
def test_any_run_of_a_quantised_stack_has_the_bits_of_the_whole(
    tmp_path: Path, architecture: str, kind: gguf.GGMLQuantizationType
) -> None:
    source, state = opened(tmp_path, architecture, kind)
    dice = random.Random(0)
    for key, tensor in state.items():
        full = read_whole(source, key, torch.float32).view(-1)
        assert float((full.view(tensor.shape) - tensor.float()).abs().max()) <= float(tensor.abs().max()) / 4, key
        for _ in range(8):
            start = dice.randrange(full.numel())
            count = dice.randint(1, full.numel() - start)
            piece = torch.empty(count)
            source.read(key, start, piece)
            assert torch.equal(piece, full[start : start + count]), f"{key} from {start}"
            raw = np.empty(count, np.float32 if source.tensors[key].dtype == "F32" else np.float16)
            source.read_bytes(key, start, memoryview(raw).cast("B"))
            assert np.array_equal(raw, piece.numpy())


def test_experts_lie_where_the_stack_has_them(tmp_path: Path) -> None:
    """Three experts of 2 by 32: the numbers of expert 1 are 64 to 127."""
    stack = np.arange(192, dtype=np.float32).reshape(3, 2, 32)
    source = GGUFSource(write_gguf(tmp_path / "m.gguf", "qwen3moe", {"blk.0.ffn_up_exps.weight": stack}))
    names = [f"model.layers.0.mlp.experts.{number}.up_proj.weight" for number in range(3)]
    assert list(source.tensors) == names
    assert read_whole(source, names[1]).view(-1).tolist() == list(range(64, 128))
    descriptor, place = source.stored_at(names[1]) or (0, 0)
    assert descriptor
    first = source.stored_at(names[0])
    assert first is not None
    assert place - first[1] == 64 * 4


def test_gate_and_up_in_one_stack_are_two_modules(tmp_path: Path) -> None:
    """Newer converters can write them so: of each expert the rows of the gate, then those of the other."""
    stack = np.arange(256, dtype=np.float32).reshape(2, 4, 32)
    source = GGUFSource(write_gguf(tmp_path / "m.gguf", "qwen3moe", {"blk.0.ffn_gate_up_exps.weight": stack}))
    found = {key: read_whole(source, key).view(-1)[0].item() for key in source.tensors}
    place = "model.layers.0.mlp.experts"
    assert found == {
        f"{place}.0.gate_proj.weight": 0, f"{place}.0.up_proj.weight": 64,
        f"{place}.1.gate_proj.weight": 128, f"{place}.1.up_proj.weight": 192,
    }  # fmt: skip


def test_experts_one_by_one_as_the_first_files_had_them(tmp_path: Path) -> None:
    rows = np.ones((2, 32), np.float32)
    tensors = {f"blk.0.ffn_{which}.{number}.weight": rows * number for which in ("gate", "down") for number in (0, 1)}
    source = GGUFSource(write_gguf(tmp_path / "m.gguf", "llama", tensors))
    place = "model.layers.0.block_sparse_moe.experts"
    assert list(source.tensors) == [f"{place}.{n}.{w}.weight" for w in ("w1", "w2") for n in (0, 1)]
    assert read_whole(source, f"{place}.1.w2.weight").unique().tolist() == [1]


def test_parts_of_other_types_meet_in_float32(tmp_path: Path) -> None:
    """The gate of gpt-oss in half precision and the other in 8 bits are woven into one tensor."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "gpt-oss")
    values = np.random.default_rng(0).standard_normal((2, 4, 32), dtype=np.float32)
    writer.add_tensor("blk.0.ffn_gate_exps.weight", values.astype(np.float16))
    writer.add_tensor("blk.0.ffn_up_exps.weight", gguf.quantize(values, KINDS.Q8_0), raw_dtype=KINDS.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    source = GGUFSource(tmp_path / "m.gguf")
    woven = read_whole(source, "model.layers.0.mlp.experts.gate_up_proj")
    assert (woven.dtype, woven.shape) == (torch.float32, (2, 32, 8))
    assert torch.equal(woven[..., ::2], torch.from_numpy(values).half().float().transpose(1, 2))
    eight = gguf.dequantize(gguf.quantize(values, KINDS.Q8_0), KINDS.Q8_0)
    assert torch.equal(woven[..., 1::2], torch.from_numpy(eight).transpose(1, 2))
