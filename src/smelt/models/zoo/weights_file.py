"""The one file of weights that an origin makes: every tensor in the order of its name, and the file's SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import IO

from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, TensorInfo, read_whole

__all__ = ["write_weights"]


def write_weights(
    tensors: Mapping[str, tuple[Source, str]], file: IO[bytes] | None = None, dtype: str | None = None
) -> str:
    """Write tensors, each from a source under its name there; gives the SHA-256, which is all without a file.

    `dtype`: of all of them, such as F16; each one's own if nothing is said.
    """
    import torch

    from smelt.formats.safetensors import encode_header

    layout: dict[str, TensorInfo] = {}
    for key in sorted(tensors):
        source, stored = tensors[key]
        info = source.tensors[stored]
        layout[key] = TensorInfo(dtype or info.dtype, info.shape)
    head, _ = encode_header(layout, {"format": "pt"})
    digest = hashlib.sha256(head)
    if file is not None:
        file.write(head)
    for key, info in layout.items():
        numbers = read_whole(*tensors[key]).view(-1).to(dtypes.torch_dtype(info.dtype))
        content = numbers.view(torch.uint8).numpy().data
        digest.update(content)
        if file is not None:
            file.write(content)
    return digest.hexdigest()
