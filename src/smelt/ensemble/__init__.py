"""Ensembles: several models in, one predictor out, with no new weights; every model is run on every picture.

The room is also the call: `smelt.ensemble(models)` (docs/adr/0001). Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.ensemble.call import ensemble
    from smelt.ensemble.per_class import PerClass
    from smelt.ensemble.scores import Ensemble, MaxModel

__all__ = ["Ensemble", "MaxModel", "PerClass", "ensemble"]

_HOME = {"ensemble": "call", "Ensemble": "scores", "MaxModel": "scores", "PerClass": "per_class"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


callable_room(__name__, "smelt.ensemble.call")
