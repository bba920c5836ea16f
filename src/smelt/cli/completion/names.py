"""The names that can follow a flag: methods with their parameters, models of the zoo, tasks, suites, pools.

Finding them loads pydantic and every method, which takes half a second. So they are found once and kept in the cache,
until another version of Smelt, or another package, is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from smelt.files.cache import CACHE_KINDS, cached_path, write_cached
from smelt.files.reading import find_json_table
from smelt.version import __version__

__all__ = ["NAMES", "names_of", "parameters_of"]

Names: TypeAlias = "dict[str, str]"
"""What can be typed, with a few words about it."""

_FORMAT = 1


def _methods() -> Names:
    from smelt.methods import stages
    from smelt.methods.aliases import ALIASES
    from smelt.prepare.prepare import stages_with_data
    from smelt.recipe.pipeline import describe

    found = {name: stage.summary for name, stage in {**stages_with_data(), **stages}.items()}
    return {**found, **{name: describe(composition) for name, composition in ALIASES.items()}}


def _parameters() -> Names:
    """`ties.density` for every parameter of every method."""
    from smelt.methods import stages
    from smelt.prepare.prepare import stages_with_data

    known = {**stages_with_data(), **stages}
    return {
        f"{name}.{one.name}": f"{one.type_name}{'' if one.required else f', default {one.default}'}"
        for name, stage in known.items()
        for one in stage.parameters.values()
    }


def _models() -> Names:
    from smelt.models.zoo.catalogue import first_sentence, zoo_folders

    return {f"zoo:{name}": first_sentence(Path(folder) / "README.md") for name, folder in zoo_folders().items()}


def _tasks() -> Names:
    from smelt.tasks.groups import GROUPS
    from smelt.tasks.registry import list_tasks

    tasks = {name: task.summary for name, task in list_tasks().items()}
    return {**tasks, **{name: f"{len(members)} tasks" for name, members in GROUPS.items()}}


def _suites() -> Names:
    from smelt.suites.find import suites

    return dict.fromkeys(suites(), "")


def _layouts() -> Names:
    from smelt.formats.layouts import layouts

    return dict.fromkeys(layouts, "")


def _pools() -> Names:
    from smelt.compat.fusionbench.pools import shipped_pools

    return dict.fromkeys(shipped_pools(), "")


_KEPT: Mapping[str, Callable[[], Names]] = {
    "methods": _methods,
    "parameters": _parameters,
    "models": _models,
    "tasks": _tasks,
    "suites": _suites,
    "pools": _pools,
    "layouts": _layouts,
}
_GGUF_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4", "tq2_0", "tq1_0")
_FEW: Mapping[str, Names] = {
    "devices": {"cpu": "", "cuda": "a GPU of NVIDIA's", "mps": "Apple's GPU"},
    "merge devices": {"cpu": "", "cuda": "NVIDIA's GPUs", "auto": "what is estimated to take less time"},
    "dtypes": dict.fromkeys(("bfloat16", "float16", "float32", "float64"), ""),
    "splits": dict.fromkeys(("train", "val", "test"), ""),
    "executors": {"local": "processes", "inline": "here", "ray": "a Ray cluster", "slurm": "Slurm's queue"},
    "gguf types": dict.fromkeys(_GGUF_TYPES, ""),
    "cache kinds": {name: kind.what for name, kind in CACHE_KINDS.items()},
    "shells": dict.fromkeys(("bash", "zsh", "fish"), ""),
}
NAMES = (*(kind for kind in _KEPT if kind != "parameters"), "settings", *_FEW)
"""What an `Option` may say that it completes to; `settings` are the parameters of the method that was typed."""


def names_of(kind: str) -> Names:
    """The names of a kind. What is not installed (the zoo, say) has none."""
    if kind in _FEW:
        return _FEW[kind]
    file = cached_path("completion", f"{kind}-{_key()}.json")
    known = find_json_table(file)
    if known is None:
        known = _found(kind)
        write_cached(file, json.dumps(known))
    return known


def parameters_of(method: str) -> Names:
    """The parameters of the methods in a text such as `dare,ties`; of several, each after its method's name."""
    methods = [name for name in method.lower().split(",") if name]
    known = names_of("parameters")
    found = {
        (name.partition(".")[2] if len(methods) == 1 else name): about
        for name, about in known.items()
        if name.partition(".")[0] in methods
    }
    return {f"{name}=": about for name, about in found.items()}


def _found(kind: str) -> Names:
    from smelt.errors import SmeltError

    with suppress(SmeltError):
        return {name: " ".join(about.split()) for name, about in _KEPT[kind]().items()}
    return {}


def _key() -> str:
    """Another one when something was installed: then a folder on Python's path has changed."""
    own = Path(__file__).parents[2]
    places = [*map(Path, sys.path), own, *(own / room for room in ("methods", "tasks", "suites"))]
    times = []
    for place in places:
        with suppress(OSError):
            times.append((str(place), os.stat(place).st_mtime_ns))
    return hashlib.sha256(json.dumps([_FORMAT, __version__, times]).encode()).hexdigest()[:16]
