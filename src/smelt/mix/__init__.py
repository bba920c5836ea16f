"""Mixing: models in, one larger model out that keeps the experts' MLPs apart and chooses between them per sample.

A mixed model is a folder of its own kind that loads as a classifier. Takes models from `pool`, examples from
`evaluate`, the optimiser from `learn`. The room is also the call: `smelt.mix(recipe)` (docs/adr/0001). Names load when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.mix.call import Mixed, mix
    from smelt.mix.checkpoint import load_routers, save_routers
    from smelt.mix.classifier import MixedClassifier, is_mixed, load_mixed
    from smelt.mix.network import MixedNetwork, mixed_network
    from smelt.mix.ways import check_mixer, mixers

__all__ = [
    "Mixed",
    "MixedClassifier",
    "MixedNetwork",
    "check_mixer",
    "is_mixed",
    "load_mixed",
    "load_routers",
    "mix",
    "mixed_network",
    "mixers",
    "save_routers",
]

_HOME = {
    **dict.fromkeys(("Mixed", "mix"), "call"),
    **dict.fromkeys(("load_routers", "save_routers"), "checkpoint"),
    **dict.fromkeys(("MixedClassifier", "is_mixed", "load_mixed"), "classifier"),
    **dict.fromkeys(("MixedNetwork", "mixed_network"), "network"),
    **dict.fromkeys(("check_mixer", "mixers"), "ways"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


callable_room(__name__, "smelt.mix.call")
