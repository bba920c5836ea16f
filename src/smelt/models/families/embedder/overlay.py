"""Weights of a Source over those that an embedder was loaded with: an adapter over its base is such a Source.

A tensor without a prefix belongs to the first module that has weights, any other to the module in whose folder it lies:
`formats/sentence_transformers/source.py` names them so. Numbers that find no place are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.sentence_transformers.modules import read_modules
from smelt.formats.sentence_transformers.source import module_folders
from smelt.formats.source import Source, prefix_of, read_whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["overlay_weights"]

_INNER = ("", "model.", "auto_model.")
"""What the library puts between a module and the names of its weights."""


def overlay_weights(module: Any, source: Source, folder: Path) -> None:
    """Copy every tensor of a Source into a loaded model of this folder."""
    import torch

    state: Mapping[str, Tensor] = module.state_dict()
    numbers = _numbers(folder)
    for key, info in source.tensors.items():
        prefix = prefix_of(key, numbers)
        names = [f"{numbers[prefix]}.{inner}{key.removeprefix(prefix)}" for inner in _INNER]
        place = next((state[name] for name in names if name in state), None)
        if place is None and info.dtype not in dtypes.FLOATS:  # positions that the model counts itself
            continue
        if place is None or tuple(place.shape) != info.shape:
            raise RecipeError(f"{source.label}: {key!r} of shape {info.shape} has no place in the embedder of {folder}")
        with torch.no_grad():
            place.copy_(read_whole(source, key))


def _numbers(folder: Path) -> dict[str, int]:
    """The number of every module with weights, by what the names of its tensors begin with."""
    found: dict[str, int] = {}
    for number, module in enumerate(read_modules(folder)):
        for place in module_folders(folder, module):
            found[f"{place}." if found else ""] = number
    return found
