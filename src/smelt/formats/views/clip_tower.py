"""One tower of a CLIP model under the names it has in the whole model.

A `CLIPVisionModel` is saved with `vision_model.` before its names or without, depending on where it was loaded from
and by which version of the library. Here it always has it, so that towers merge with each other and with whole
models; the library loads both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from smelt.formats.folder_files import read_config
from smelt.formats.source import Source
from smelt.formats.views.renamed import renamed
from smelt.formats.views.view import views

__all__ = ["ClipTower"]

_PREFIX = {"clip_vision_model": "vision_model.", "clip_text_model": "text_model."}


class ClipTower:
    """A picture or a text tower alone, by its config."""

    model_types = tuple(_PREFIX)
    prefixes = ()
    suffixes = ()
    frozen = None

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """Whether the config is that of a tower alone."""
        return _model_type(config) in _PREFIX

    def of(self, source: Source) -> Source:
        """The tower with its prefix."""
        prefix = _PREFIX[_model_type(read_config(source.folder))]
        if any(name.startswith(prefix) for name in source.tensors):
            return source
        return renamed(source, lambda name: prefix + name)


def _model_type(config: Mapping[str, Any] | None) -> str:
    return str((config or {}).get("model_type"))


views["clip_tower"] = ClipTower()
