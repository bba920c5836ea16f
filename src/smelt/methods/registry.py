"""Every stage by name. A stage's file is loaded when the stage is asked for; all of them when somebody looks at all.

A merge needs one or two of forty. Stages of this room stand in files of their own names. Those that do not, and those
of installed plug-ins, are found when all are loaded: a plug-in is any distribution with an entry point in the group
`smelt.methods` that names a module of stages.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.methods.method import Stage

__all__ = ["Registry"]

_ROOM = "smelt.merge"
_FOLDER = Path(__file__).parent


class Registry(MutableMapping[str, "Stage"]):
    """A dictionary that fills itself."""

    def __init__(self) -> None:
        self._loaded: dict[str, Stage] = {}
        self._whole = False

    def __getitem__(self, name: str) -> Stage:
        if self.own(name) is None:
            self._load_all()
        return self._loaded[name]

    def __setitem__(self, name: str, stage: Stage) -> None:
        self._loaded[name] = stage

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return iter(self._loaded)

    def __len__(self) -> int:
        self._load_all()
        return len(self._loaded)

    def own(self, name: str) -> Stage | None:
        """The stage of this name, if it is loaded or stands in a file of its name."""
        here = name.isidentifier() and os.path.isfile(_FOLDER / f"{name}.py")
        if name not in self._loaded and not self._whole and here:
            importlib.import_module(f"{_ROOM}.{name}")
        return self._loaded.get(name)

    def _load_all(self) -> None:
        """The stages of this room in the order of their files, whichever came first, then all others."""
        if self._whole:
            return
        self._whole = True  # a plug-in may look at the others while it is being loaded
        try:
            files = [module.name for module in pkgutil.iter_modules([str(_FOLDER)])]
            for file in files:
                importlib.import_module(f"{_ROOM}.{file}")
            from importlib.metadata import entry_points

            for plugin in entry_points(group="smelt.methods"):
                plugin.load()
        except BaseException:
            self._whole = False
            raise
        place = {f"{_ROOM}.{file}": number for number, file in enumerate(files)}
        self._loaded = dict(
            sorted(self._loaded.items(), key=lambda one: place.get(one[1].function.__module__, len(place)))
        )
