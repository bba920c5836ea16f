"""Learned coefficients: one number per model and group of tensors, as a file, and as an ordinary recipe.

coefficients.json     {level, groups: {name: [tensors]}, values: {model: [one per group]}}
weights.pt            FusionBench's: a tensor [models] or [models, tensors], which names neither; read with
                      weights_only, against the names that the caller knows
"""

from __future__ import annotations

import glob
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import read_json
from smelt.files.writing import atomic_file, write_json
from smelt.learning.tensor_groups import Level, groups_of
from smelt.recipe.patterns import matches

__all__ = ["Coefficients", "heat_map", "heat_rows", "load_coefficients", "patterns_for", "save_coefficients"]

_TORCH = (".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Coefficients:
    """base + sum_i λ_i τ_i: the λ of every model, for every group of tensors."""

    level: Level
    groups: Mapping[str, tuple[str, ...]]
    values: Mapping[str, tuple[float, ...]]

    @property
    def means(self) -> dict[str, float]:
        """The mean coefficient of every model."""
        return {model: sum(row) / len(row) for model, row in self.values.items()}

    def merge(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The stage that merges with these coefficients; `names` are all tensors of the base.

        Tensors outside the groups stay the base's.
        """
        names = list(names)
        patterns = {group: patterns_for(keys, names) for group, keys in self.groups.items()}
        everything = {group for group, found in patterns.items() if found == ["*"]}
        weights: dict[str, Any] = {}
        for model, row in self.values.items():
            entries = [
                {"filter": pattern, "value": value}
                for (group, found), value in zip(patterns.items(), row, strict=True)
                for pattern in found
            ]
            weights[model] = row[0] if everything else [*entries, {"value": 0.0}]
        return [{"task_arithmetic": {"scale": 1.0, "weights": weights}}]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "level": self.level,
            "groups": {name: list(keys) for name, keys in self.groups.items()},
            "values": {model: list(row) for model, row in self.values.items()},
        }


def save_coefficients(path: str | Path, coefficients: Coefficients) -> Path:
    """Write coefficients: as JSON, or (`.pt`) as the bare tensor that FusionBench knows."""
    path = Path(path)
    if path.suffix == ".json":
        return write_json(path, coefficients.to_json())
    if path.suffix not in _TORCH:
        raise RecipeError(f"{path}: coefficients are written as .json or {', '.join(_TORCH)}")
    import torch

    table = torch.tensor([list(row) for row in coefficients.values.values()])
    with atomic_file(path) as partial:
        torch.save(table[:, 0].clone() if coefficients.level == "task" else table, partial)
    return path


def load_coefficients(
    path: str | Path, *, models: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> Coefficients:
    """Read coefficients from `.json` or `.pt`. A `.pt` names nothing: give the models and tensors, in its order.

    Where `models` are given, a file that is about others is refused.
    """
    path = Path(path)
    if not path.is_file():
        raise RecipeError(f"there are no coefficients at {path}")
    found = _from_torch(path, models, keys) if path.suffix in _TORCH else _from_json(path)
    if models is not None and set(found.values) != set(models):
        raise RecipeError(
            f"{path}: has coefficients of {', '.join(found.values)}, but the models are {', '.join(models)}"
        )
    return found


def _from_json(path: Path) -> Coefficients:
    try:
        content = read_json(path)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; it is not a file of coefficients") from None
    try:
        groups = {str(name): tuple(map(str, keys)) for name, keys in content["groups"].items()}
        values = {str(model): tuple(map(float, row)) for model, row in content["values"].items()}
        level = content["level"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise CorruptFile(f"{path}: not a file of coefficients ({type(error).__name__}: {error})") from None
    if level not in get_args(Level) or not values or any(len(row) != len(groups) for row in values.values()):
        raise CorruptFile(f"{path}: not a file of coefficients (every model needs one number per group)")
    return Coefficients(level, groups, values)


def _from_torch(path: Path, models: Sequence[str] | None, keys: Sequence[str] | None) -> Coefficients:
    import torch

    from smelt.formats.pickles import read_pickle

    if models is None or keys is None:
        raise RecipeError(f"{path}: a bare tensor of coefficients names nothing; give the models and tensors it is for")
    table = read_pickle(path)
    if not isinstance(table, torch.Tensor) or table.ndim not in (1, 2) or not table.is_floating_point():
        raise CorruptFile(f"{path}: should hold one tensor, [models] or [models, tensors]")
    wanted = (len(models),) if table.ndim == 1 else (len(models), len(keys))
    if tuple(table.shape) != wanted:
        raise RecipeError(f"{path}: holds {tuple(table.shape)} numbers, but {wanted} are needed for these models")
    level: Level = "task" if table.ndim == 1 else "tensor"
    rows = table.detach().double().reshape(len(models), -1).tolist()
    return Coefficients(level, groups_of(keys, level), {name: tuple(r) for name, r in zip(models, rows, strict=True)})


def patterns_for(keys: Sequence[str], names: Sequence[str]) -> list[str]:
    """Few patterns that match these tensors and no other of `names`: one with a star where that does, else each."""
    if set(keys) >= set(names):
        return ["*"]
    if len(keys) > 1:
        first, last = min(keys).split("."), max(keys).split(".")
        shared = "".join(f"{part}." for part, _ in itertools.takewhile(_equal, zip(first, last, strict=False)))
        pattern = glob.escape(shared) + "*"
        if shared and {name for name in names if matches(pattern, name)} == set(keys):
            return [pattern]
    return [glob.escape(key) for key in keys]


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def heat_rows(coefficients: Coefficients) -> dict[str, Any]:
    """Rows of a heat map in the shape of the analyses by layer: {layers: [...], models: {name: [one per layer]}}.

    A number is the mean over the tensors of the layer.
    """
    group = {key: number for number, keys in enumerate(coefficients.groups.values()) for key in keys}
    layers = groups_of(list(group), "layer")
    return {
        "layers": list(layers),
        "models": {
            model: [sum(row[group[key]] for key in keys) / len(keys) for keys in layers.values()]
            for model, row in coefficients.values.items()
        },
        "level": coefficients.level,
        "tensors": len(group),
    }


def heat_map(coefficients: Coefficients) -> dict[str, Any]:
    """Learned coefficients as the heat map of layers and models that the report draws."""
    found = heat_rows(coefficients)
    models = found["models"]
    return {
        "title": "Learned coefficients",
        "rows": found["layers"],
        "columns": list(models),
        "matrix": [[models[name][number] for name in models] for number in range(len(found["layers"]))],
        "note": "how much of each model's change is added, layer by layer (the mean over a layer's tensors)",
        "signed": True,
    }
