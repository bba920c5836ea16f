"""Small quantised models on disk, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from smelt.formats.open import open_path
from smelt.formats.source import Source, read_whole


def stored(
    folder: Path, tensors: Mapping[str, Tensor], said: Mapping[str, Any] | None = None, dtype: str = "bfloat16"
) -> Path:
    """A model folder with these tensors, whose config says this of its quantisation."""
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    config = {"model_type": "llama", "dtype": dtype} | ({"quantization_config": said} if said else {})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def opened(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the model, as it is offered."""
    source = open_path(folder)
    try:
        return {key: read_whole(source, key) for key in source.tensors}
    finally:
        source.close()


def check_pieces(source: Source, key: str) -> None:
    """Any run of elements, as numbers or as bytes, is the same as in the whole tensor."""
    whole = read_whole(source, key).view(-1)
    size = whole.element_size()
    for start, count in ((0, 1), (1, 2), (len(whole) // 2 + 1, len(whole) // 3), (len(whole) - 3, 3)):
        numbers = torch.empty(count)
        source.read(key, start, numbers)
        assert torch.equal(numbers, whole[start : start + count].float())
        raw = bytearray(count * size)
        source.read_bytes(key, start, memoryview(raw))
        assert torch.equal(torch.frombuffer(raw, dtype=whole.dtype), whole[start : start + count])
