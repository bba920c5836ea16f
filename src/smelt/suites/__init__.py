"""Suites: a pool of models and tasks in, rows, figures and a report out. A suite is data (YAML) plus one loop.

Goes through the other rooms from left to right (pool, merge, analyse, evaluate, report) and adds no arithmetic of its
own. The room is also the call: `smelt.bench("clip8", out="clip8")` (docs/adr/0001). Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.suites.clip.loop import Finished, Options, bench
    from smelt.suites.clip.suite import Suite, find_suite, suites

__all__ = ["Finished", "Options", "Suite", "bench", "find_suite", "suites"]

_HOME = {
    **dict.fromkeys(("Finished", "Options", "bench"), "loop"),
    **dict.fromkeys(("Suite", "find_suite", "suites"), "suite"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


callable_room(__name__, "smelt.suites.clip.loop")
