"""Zero-shot heads, remembered by the content they follow from. Losing the cache costs time only.

A file is the SHA-256 of its numbers, then the numbers; one that does not match is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.files.cache import cached_path, write_cached

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["remembered"]

_DIGEST = 32


def remembered(key: str, shape: tuple[int, ...], build: Callable[[], Tensor]) -> Tensor:
    """The fp32 tensor of this key and shape, from the cache or made by `build` and kept."""
    path = cached_path("heads", f"{key}.f32")
    found = _read(path, shape)
    if found is None:
        found = build()
        _write(path, found)
    return found


def _read(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    import numpy as np
    import torch

    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, numbers = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(numbers).digest() != digest or len(numbers) != 4 * int(np.prod(shape)):
        return None
    return torch.from_numpy(np.frombuffer(numbers, dtype="<f4").reshape(shape).copy())


def _write(path: Path, tensor: Tensor) -> None:
    numbers = tensor.detach().cpu().contiguous().numpy().astype("<f4").tobytes()
    write_cached(path, hashlib.sha256(numbers).digest() + numbers)
