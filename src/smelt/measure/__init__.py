"""Measuring: a model and a stream of data in, statistics under the model's own keys out: diagonal Fisher, Grams.

Asks `pool` for networks and `evaluate` for examples; what it writes are Sources that merges read. The room is also
the call: `smelt.measure(model, "fisher", task)` (docs/adr/0001). Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.measure.call import measure, measure_merged
    from smelt.measure.shares import combine
    from smelt.measure.store import Measured

__all__ = ["Measured", "combine", "measure", "measure_merged"]

_HOME = {
    **dict.fromkeys(("measure", "measure_merged"), "call"),
    "Measured": "store",
    "combine": "shares",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


callable_room(__name__, "smelt.measure.call")
