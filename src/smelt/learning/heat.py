"""Coefficients as a heat map: layers by models, as data. The report draws it."""

from __future__ import annotations

from typing import Any, Literal

from smelt.learning.coefficients import Coefficients
from smelt.learning.levels import Level, groups_of

__all__ = ["heat_map", "heat_rows"]


def heat_rows(coefficients: Coefficients, by: Literal["layer", "tensor"] = "layer") -> dict[str, Any]:
    """Rows of a heat map in the shape of the analyses by layer: {layers: [...], models: {name: [one per layer]}}.

    By layer, a number is the mean over the tensors of the layer; by tensor, it is each tensor's own.
    """
    level: Level = by
    group = {key: number for number, keys in enumerate(coefficients.groups.values()) for key in keys}
    layers = groups_of(list(group), level)
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
