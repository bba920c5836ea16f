"""Things by name: Smelt's own, each loaded when it is asked for, then those of installed plug-ins.

A plug-in is any distribution with an entry point in the registry's group that names a module, which enters what it has
when it is imported: `stages["mine"] = ...`, or a decorator that does so.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["Registry", "modules_below"]

T = TypeVar("T")


class Registry(MutableMapping[str, T]):
    """A dictionary that fills itself: one thing by its name, all of them when somebody looks at all."""

    def __init__(self, group: str, own: Callable[[], Mapping[str, str]], home: Callable[[T], str]):
        """Of the entry points in `group`. `own` gives Smelt's own modules by the names of their things, in the order in
        which they are listed; `home` tells the module of a thing.
        """
        self._group = group
        self._own = cache(own)
        self._home = home
        self._loaded: dict[str, T] = {}
        self._whole = False
        self._filling = threading.RLock()
        """Held while it fills itself, so that no other thread sees a part for the whole."""

    def __getitem__(self, name: str) -> T:
        if self.own(name) is None:
            self._load_all()
        return self._loaded[name]

    def __setitem__(self, name: str, thing: T) -> None:
        self._loaded[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return iter(self._loaded)

    def __len__(self) -> int:
        self._load_all()
        return len(self._loaded)

    def own(self, name: str) -> T | None:
        """The thing of this name, if it is loaded or Smelt's own."""
        if name not in self._loaded and not self._whole and (module := self._own().get(name)) is not None:
            importlib.import_module(module)
        return self._loaded.get(name)

    def _load_all(self) -> None:
        """Smelt's own in the order of their modules, whichever was loaded first; then all others."""
        with self._filling:
            if not self._whole:
                self._fill()

    def _fill(self) -> None:
        self._whole = True  # a plug-in may look at the others while it is being loaded
        own = list(self._own().values())
        try:
            for module in own:
                importlib.import_module(module)
            for plugin in _plugins(self._group, tuple(sys.path)):
                plugin.load()
        except BaseException:
            self._whole = False
            raise
        place = {module: number for number, module in enumerate(own)}
        self._loaded = dict(
            sorted(self._loaded.items(), key=lambda one: place.get(self._home(one[1]), len(place)))  # a stable sort
        )


@cache
def _plugins(group: str, path: tuple[str, ...]) -> EntryPoints:
    """The entry points of what is installed below `path`; one look, 4 ms, for all registries of a group."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


def modules_below(folder: Path, package: str) -> dict[str, str]:
    """The modules in `folder` and below, by the names of their files, in alphabetical order."""
    found = {
        file.stem: ".".join((package, *file.relative_to(folder).with_suffix("").parts))
        for file in folder.rglob("*.py")
        if file.stem != "__init__"
    }
    return dict(sorted(found.items()))
