"""Views that rename: a model stored in a layout of its own appears under the names that all others of its kind have.

A view is registered by its name (`views["mine"] = ...`), also by a plug-in: a module that an entry point of the group
`smelt.formats` names. All views are asked about every model that is opened, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from smelt.formats.architecture.config import read_config
from smelt.formats.source import Source
from smelt.registry import Registry

__all__ = ["NameView", "frozen_prefix", "views", "with_common_names"]


class NameView(Protocol):
    """One layout of names."""

    @property
    def frozen(self) -> str | None:
        """What the names begin with that fine-tunes of such models never change; None where that is no part of them."""

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """Whether a model is of the kind, by its config.json (None where it has none) and its tensors' names."""

    def of(self, source: Source) -> Source:
        """A recognised model under the common names; the Source itself where it has them already."""


views: Registry[NameView] = Registry(
    "smelt.formats",
    own=lambda: {name: f"smelt.formats.views.{name}" for name in ("open_clip", "clip_tower", "llava")},
    home=lambda view: type(view).__module__,
)
"""Every registered view by name."""


def with_common_names(source: Source) -> Source:
    """The Source itself, or a view of it under the common names."""
    config = read_config(source.folder)
    for view in views.values():
        if view.recognises(config, source.tensors.keys()):
            source = view.of(source)
    return source


def frozen_prefix(source: Source) -> str | None:
    """What the names of the tensors begin with that fine-tunes of this model share; None where they share none."""
    config = read_config(source.folder)
    found = (view.frozen for view in views.values() if view.frozen and view.recognises(config, source.tensors.keys()))
    return next(found, None)
