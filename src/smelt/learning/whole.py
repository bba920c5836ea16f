"""A model folder for weights that were learned as a whole: the base with other numbers, and all its small files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import small_files
from smelt.optimise.tensors import save_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.learning.setting import Setting

__all__ = ["write_model"]


def write_model(folder: Path, weights: Mapping[str, Tensor], scene: Setting, dtype: str | None) -> Path:
    """Write a folder that loads like the base. Learned tensors have `dtype`, or that of the base's."""
    import torch

    base = scene.pool.base
    assert base is not None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    state: dict[str, Tensor] = {}
    for name, info in base.tensors.items():
        own = dtypes.torch_dtype(info.dtype)
        if name in weights:
            state[name] = weights[name].detach().to("cpu", getattr(torch, dtype) if dtype else own)
            continue
        flat = torch.empty(info.count, dtype=own)
        base.read(name, 0, flat)
        state[name] = flat.view(info.shape)
    for place, file in small_files(base.folder).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / place)
    save_tensors(folder / "model.safetensors", state)
    return folder
