"""The figures of a fitted Portland as data: its CoopVec Map, that of test pictures, and the diagonal over epochs."""

from __future__ import annotations

import re
from typing import Any

from smelt.learning.neulig.coopmap import CoopVecMap
from smelt.learning.neulig.fit import Fitted

__all__ = ["figures"]


def figures(fitted: Fitted, learned: CoopVecMap, tested: CoopVecMap, title: str) -> dict[str, dict[str, Any]]:
    """By the name of their files: heat maps of the training and of the test pictures, and lines over the epochs."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    lines = {
        name: [float(epoch.map[place, place]) for epoch in fitted.history] for place, name in enumerate(learned.experts)
    }
    return {
        f"heat-{slug}": _heat(learned, f"CoopVec Map: {title}", "training"),
        f"heat-tested-{slug}": _heat(tested, f"CoopVecs of test pictures: {title}", "test"),
        f"lines-{slug}": {
            "title": f"The diagonal of the CoopVec Map: {title}",
            "x_label": "epoch",
            "y_label": "coefficient of the own expert",
            "x": [epoch.number for epoch in fitted.history],
            "lines": lines,
            "note": f"epoch 0 is before training; epoch {fitted.chosen} was chosen on validation pictures",
        },
    }


def _heat(table: CoopVecMap, title: str, which: str) -> dict[str, Any]:
    return {
        "title": title,
        "rows": list(table.tasks),
        "columns": list(table.experts),
        "matrix": table.matrix.tolist(),
        "note": f"the mean coefficient that a data set's {which} pictures give to each expert",
        "signed": False,
    }
