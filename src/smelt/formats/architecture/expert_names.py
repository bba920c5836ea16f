"""What the matrices of experts are called: one by one, as most files have them, and several in one tensor.

In: the `model_type` of a config. Out: the naming of its files. A module of transformers 5 holds the experts of a layer
in two tensors; its `save_pretrained` mostly writes them one by one, and it loads both. A new architecture whose names
are not those of most is one more line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ONE_EXPERT", "ExpertNames", "model_types_in", "naming_of"]

ONE_EXPERT = re.compile(r"^(?P<block>.+)\.experts\.(?P<number>\d+)\.(?P<rest>.+)$")
"""A tensor of one expert: model.layers.0.mlp.experts.7.up_proj.weight."""


@dataclass(frozen=True)
class ExpertNames:
    """The names of one family of models."""

    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    in_files: tuple[tuple[str, str], ...] = ()
    """Parts of names in a module of transformers 5, and what files with experts one by one have instead."""
    known: bool = True
    """Whether other libraries know these names; else no file has them, and they are only here."""

    def to_files(self, name: str) -> str:
        """A name of the module, as files with experts one by one have it."""
        for module, file in self.in_files:
            if module in name:
                return name.replace(module, file)
        return name

    def to_module(self, name: str) -> str:
        """The reverse."""
        for module, file in self.in_files:
            if file in name:
                return name.replace(file, module)
        return name


_PLAIN = ExpertNames()
_SPARSE = (".mlp.", ".block_sparse_moe.")
_MIXTRAL = ExpertNames("w1", "w3", "w2", (_SPARSE,))
_GRANITE = ExpertNames(
    in_files=((".block_sparse_moe.router.weight", ".block_sparse_moe.router.layer.weight"),), known=False
)
_NAMINGS: Mapping[str, ExpertNames] = {
    "mixtral": _MIXTRAL,
    "minimax": _MIXTRAL,
    "minimax_m2": _MIXTRAL,
    "phimoe": ExpertNames("w1", "w3", "w2", ((".mlp.router.", ".block_sparse_moe.gate."), _SPARSE)),
    "lfm2_moe": ExpertNames("w1", "w3", "w2"),
    "granitemoe": _GRANITE,
    "granitemoeshared": _GRANITE,
    "granitemoehybrid": _GRANITE,
}
"""By `model_type`, those that differ from most."""


def naming_of(config: Mapping[str, Any] | None) -> ExpertNames:
    """The naming of a model by its config, or by that of a part of it."""
    return next((_NAMINGS[kind] for kind in model_types_in(config or {}) if kind in _NAMINGS), _PLAIN)


def model_types_in(config: Mapping[str, Any]) -> Iterator[str]:
    """The model types that a config names, its own first."""
    if "model_type" in config:
        yield str(config["model_type"])
    for value in config.values():
        if isinstance(value, Mapping):
            yield from model_types_in(value)
