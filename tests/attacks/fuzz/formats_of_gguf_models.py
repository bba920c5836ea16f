"""GGUF models of several files, mixtures of experts and blocks with 256 numbers, converted into ordinary folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz.damage_gguf import gguf
from fuzz.format import Format
from safetensors.torch import load_file

import smelt

__all__ = ["FORMATS"]

_WIDTH = 256
_DENSE = {"token_embd": (8, _WIDTH), "blk.0.attn_v": (16, _WIDTH), "blk.0.ffn_up": (32, _WIDTH), "output": (8, _WIDTH)}
_EXPERTS = {
    "token_embd": (8, _WIDTH), "blk.0.ffn_gate_inp": (2, _WIDTH), "blk.0.ffn_gate_exps": (2, 4, _WIDTH),
    "blk.0.ffn_up_exps": (2, 4, _WIDTH), "blk.0.ffn_down_exps": (2, 64, 32),
}  # fmt: skip
_HALVES = {"Q4_K": (0, 2), "Q6_K": (208,), "Q2_K": (80, 82), "Q8_0": (0,)}
"""Where the scales of a block are."""
_FIELDS = {"block_count": 1, "embedding_length": _WIDTH, "attention.head_count": 2, "attention.head_count_kv": 1}


def _write(path: Path, architecture: str, shapes: dict[str, tuple[int, ...]], **words: Any) -> None:
    import gguf as library

    writer, random = library.GGUFWriter(path, architecture, **words), np.random.default_rng(0)
    for name, value in {**_FIELDS, "feed_forward_length": 32, "context_length": 64, "expert_count": 2}.items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_token_list([f"token {number}" for number in range(8)])
    for number, (name, shape) in enumerate(shapes.items()):
        kind = list(_HALVES)[number % 4] if shape[-1] % _WIDTH == 0 else "Q8_0"
        block, size = library.GGML_QUANT_SIZES[library.GGMLQuantizationType[kind]]
        raw = random.integers(0, 256, (*shape[:-1], shape[-1] // block, size), dtype=np.uint8)
        for at in _HALVES[kind]:
            raw[..., at : at + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        stored = raw.reshape(*shape[:-1], -1)
        writer.add_tensor(f"{name}.weight", stored, raw_dtype=library.GGMLQuantizationType[kind])
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _make_parts(place: Path) -> None:
    _write(place / "m.gguf", "llama", _DENSE, split_max_tensors=2)


def _make_experts(place: Path) -> None:
    for architecture in ("qwen3moe", "gpt-oss", "llama"):
        _write(place / f"{architecture}.gguf", architecture, _EXPERTS)


def _convert(place: Path, file: str) -> tuple[str, dict[str, torch.Tensor]]:
    smelt.convert(place / file, out=place / "out", dtype="float32", force=True)
    assert not smelt.verify(place / "out").faults
    config = place / "out" / "config.json"
    assert not config.exists() or isinstance(json.loads(config.read_text()), dict)
    return file, load_file(place / "out" / "model.safetensors")


def _has_the_numbers_of_the_package(place: Path, made: tuple[str, dict[str, torch.Tensor]]) -> str | None:
    """Names, slices and turns change places: the numbers are those that the gguf package finds, in another order."""
    import gguf as library

    file, found = made
    parts = sorted(place.glob("m-*.gguf")) if file.startswith("m-") else [place / file]
    numbers: list[Any] = []
    for part in parts:
        try:
            opened = library.GGUFReader(part)
        except (ValueError, KeyError, IndexError):  # it minds the type of fields that we only need the value of
            return None
        architecture = opened.fields.get("general.architecture")
        if architecture is not None and architecture.contents() in ("gemma3", "qwen2", "phi3"):
            return None  # its norms may be stored in another way
        with np.errstate(all="ignore"):
            kept = [one for one in opened.tensors if one.data.size and not one.name.startswith("rope_f")]
            if any(one.tensor_type.name.startswith(("I8", "I16", "I32", "I64", "F64")) for one in kept):
                return None  # the package does not dequantise those, of which there is nothing to undo
            numbers += [library.dequantize(one.data, one.tensor_type).astype("float32").reshape(-1) for one in kept]
    ours = np.sort(np.concatenate([tensor.float().numpy().reshape(-1) for tensor in found.values()]))
    theirs = np.sort(np.concatenate(numbers))
    return None if np.array_equal(ours, theirs, equal_nan=True) else "the numbers are not those of the file"


FORMATS = [
    Format(
        "gguf_parts",
        _make_parts,
        {f"m-0000{number}-of-00003.gguf": gguf for number in (1, 2, 3)},
        _convert,
        _has_the_numbers_of_the_package,
    ),
    Format(
        "gguf_experts",
        _make_experts,
        {f"{architecture}.gguf": gguf for architecture in ("qwen3moe", "gpt-oss", "llama")},
        _convert,
        _has_the_numbers_of_the_package,
    ),
]
