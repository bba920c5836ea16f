"""Made-up statistics of pico models, for stages that read some: as a measurement would give them, drawn by name.

A model's statistics depend on its name and the tensors' names and shapes alone, so that they go with it in any order.
One matrix has none in any model, as real ones do that were frozen while measuring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from smelt.formats.architecture.layout import Layout
from smelt.formats.statistics import StatisticsNote, write_statistics
from smelt.testing.pico import Pico, State

__all__ = ["STATISTICS", "made_up", "save_made_up"]

_FROZEN = "model.layers.1.mlp.down_proj.weight"


def _fisher(shape: tuple[int, ...], draw: Generator) -> Tensor:
    """Small, of very different sizes, and zero here and there."""
    values = torch.rand(shape, generator=draw)
    return (values > 0.1) * values**4 * 1e-3


def _gram(shape: tuple[int, ...], draw: Generator) -> Tensor:
    inputs = torch.randn(2 * shape[1], shape[1], generator=draw, dtype=torch.float64)
    return (inputs.mT @ inputs / len(inputs)).to(torch.float32)


def _mask(shape: tuple[int, ...], draw: Generator) -> Tensor:
    return (torch.rand(shape, generator=draw) < 0.4).to(torch.float32)


def _components(shape: tuple[int, ...], draw: Generator) -> Tensor:
    return _mask((min(shape),), draw)


STATISTICS: dict[str, Callable[[tuple[int, ...], Generator], Tensor]] = {
    "fisher": _fisher,
    "gram": _gram,
    "mask": _mask,
    "components": _components,
}
"""How statistics of a kind are made up: (shape of the tensor, generator) -> the statistic. Add a plug-in's kind."""

_OF_MATRICES = frozenset({"gram", "components"})


def made_up(kind: str, pool: Pico) -> dict[str, State]:
    """Statistics of this kind for every model of a pool."""
    assert kind in STATISTICS, f"no statistics of kind {kind!r}; add smelt.testing.STATISTICS[{kind!r}]"
    return {name: _of_model(kind, name, state) for name, state in pool.models.items()}


def save_made_up(kind: str, pool: Pico, folder: Path) -> dict[str, str]:
    """The same in folders, one per model; gives the references that a recipe names."""
    places = {}
    for name, tensors in made_up(kind, pool).items():
        about: dict[str, Any] = {"kind": kind, "estimator": "made up", "model": name, "model_hash": "", "data": ()}
        write_statistics(folder / name, StatisticsNote(**about, examples=1), tensors)
        places[name] = str(folder / name)
    return places


def _of_model(kind: str, model: str, state: State) -> State:
    return {
        key: STATISTICS[kind](tuple(tensor.shape), _generator(model, key))
        for key, tensor in state.items()
        if tensor.is_floating_point() and key != _FROZEN and (kind not in _OF_MATRICES or _is_matrix(key, tensor))
    }


def _is_matrix(key: str, tensor: Tensor) -> bool:
    return Layout.is_matrix(key, tuple(tensor.shape))


def _generator(model: str, key: str) -> Generator:
    place = hashlib.sha256(f"{model}\0{key}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(place[:7], "big"))
