"""Tensors as one safetensors file, written whole or not at all: the state of a run, and models that were tuned."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.files.writing import write_file
from smelt.formats import dtype as dtypes
from smelt.formats.safetensors import FileSource, encode_header, read_header
from smelt.formats.source import TensorInfo, read_whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["load_tensors", "save_tensors"]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> Path:
    """Write a file that replaces an older one of that name only when all of it is on disk."""
    import torch

    infos = {name: TensorInfo(dtypes.code_of(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}
    head, _ = encode_header(infos, {"format": "pt", **(metadata or {})})
    flat = (tensor.detach().to("cpu").contiguous().reshape(-1) for tensor in tensors.values())
    return write_file(path, itertools.chain([head], (numbers.view(torch.uint8).numpy().data for numbers in flat)))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """Every tensor of a file, in its own format, and the file's metadata."""
    with closing(FileSource(str(path), [path])) as source:
        tensors = {name: read_whole(source, name) for name in source.tensors}
    return tensors, read_header(path).metadata
