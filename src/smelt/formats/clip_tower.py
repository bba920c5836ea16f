"""One tower of a CLIP model under the names it has in the whole model.

A `CLIPVisionModel` is saved with `vision_model.` before its names or without, depending on where it was loaded from
and by which version of the library. Here it always has it, so that towers merge with each other and with whole
models; the library loads both.
"""

from __future__ import annotations

from smelt.formats.renamed import Piece, RenamedSource
from smelt.formats.source import Source

__all__ = ["with_tower_prefix"]

_PREFIX = {"clip_vision_model": "vision_model.", "clip_text_model": "text_model."}


def with_tower_prefix(source: Source) -> Source:
    """The source itself, or a view of it with the tower's prefix if its config says that it is a tower alone."""
    from smelt.formats.config import read_config

    prefix = _PREFIX.get(str((read_config(source.folder) or {}).get("model_type")))
    if prefix is None or any(name.startswith(prefix) for name in source.tensors):
        return source
    return RenamedSource(source, {prefix + name: Piece(name, 0, info) for name, info in source.tensors.items()})
