"""A model that trains, as an ordinary folder: as its own library saves it, else its state dict as safetensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import OutputError
from smelt.files.writing import atomic_folder
from smelt.formats.source import MemorySource, read_whole
from smelt.optimise.tensors import save_tensors

if TYPE_CHECKING:
    import torch

__all__ = ["check_free", "write_model"]


def check_free(out: Path, *, force: bool) -> None:
    """Refuse a place where something is already."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: is a file; name a folder")
    if out.is_dir() and os.listdir(out) and not force:
        raise OutputError(f"{out}: is there already; name another folder, or give force=True")


def write_model(model: torch.nn.Module, out: Path, *, tokenizer: Any, force: bool) -> Path:
    """Write the folder, whole or not at all."""
    check_free(out, force=force)
    with atomic_folder(out, replace=force and out.exists()) as folder:
        save = getattr(model, "save_pretrained", None)
        if save is not None:
            save(folder)
        else:
            source = MemorySource("state dict", model.state_dict())  # tied tensors once
            save_tensors(folder / "model.safetensors", {name: read_whole(source, name) for name in source.tensors})
        if hasattr(tokenizer, "save_pretrained"):
            tokenizer.save_pretrained(folder)
    return out
