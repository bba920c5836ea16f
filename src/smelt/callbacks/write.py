"""A model that trains, as an ordinary folder: as its own library saves it, else its state dict as safetensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import OutputError
from smelt.files.writing import atomic_folder
from smelt.optimise.tensors import save_tensors

if TYPE_CHECKING:
    import torch

__all__ = ["write_model"]


def write_model(model: torch.nn.Module, out: Path, *, tokenizer: Any, force: bool) -> Path:
    """Write the folder, whole or not at all."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: is a file; name a folder")
    if out.is_dir() and os.listdir(out) and not force:
        raise OutputError(f"{out}: is there already; name another folder, or give force=True")
    with atomic_folder(out, replace=force and out.exists()) as folder:
        save = getattr(model, "save_pretrained", None)
        if save is not None:
            save(folder)
        else:
            tied = model.state_dict()
            first: dict[int, str] = {}
            once = {name: one for name, one in tied.items() if first.setdefault(id(one), name) == name}
            save_tensors(folder / "model.safetensors", once)
        if hasattr(tokenizer, "save_pretrained"):
            tokenizer.save_pretrained(folder)
    return out
