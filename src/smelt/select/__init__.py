"""Selection: a recipe with many models in, the group of them that is worth merging out, with the whole way to it.

`uq_merge` needs no labels: it goes by how uncertain the merges are. `soup` is its reference that looks at labels. What
the models answered is kept (`store`), so that any other analysis needs no new pass. Merges come from the engine, what
models answer from `evaluate`; suites and reports are elsewhere. Names load when they are first used.

    smelt.select.uq_merge("pool.yaml", out="chosen", tasks="mllm10")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.select.call import Selected
    from smelt.select.soup import soup
    from smelt.select.subsets import Spread, random_subsets, spread
    from smelt.select.trace import Step, Trace
    from smelt.select.uncertainty import Uncertainty, uncertainty
    from smelt.select.uq_merge import uq_merge

__all__ = [
    "Selected",
    "Spread",
    "Step",
    "Trace",
    "Uncertainty",
    "random_subsets",
    "soup",
    "spread",
    "uncertainty",
    "uq_merge",
]

_HOME = {
    "Selected": "call",
    **dict.fromkeys(("Spread", "random_subsets", "spread"), "subsets"),
    **dict.fromkeys(("Step", "Trace"), "trace"),
    "Uncertainty": "uncertainty",
}
_ROOMS = ("soup", "uncertainty", "uq_merge")
"""Modules that are also the function of their name."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
