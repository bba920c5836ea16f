"""A single file of a diffusion model: under its own names, without its EMA weights, and with what is not merged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from smelt.formats.diffusion.layouts import LEFT_OUT, PREFIXES, UNMERGED, layout_of
from smelt.formats.source import Source
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.formats.views.view import views

__all__ = ["DiffusionFile"]


class DiffusionFile:
    """Layouts of ComfyUI and A1111."""

    model_types = ()
    prefixes = PREFIXES
    suffixes = ()
    frozen = None

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By the names alone: such a file has no config."""
        return layout_of(names) is not None

    def of(self, source: Source) -> Source:
        """The file as it is, but for its EMA weights."""
        kept = {name: Piece(name, 0, info) for name, info in source.tensors.items() if not name.startswith(LEFT_OUT)}
        if gone := len(source.tensors) - len(kept):
            note = f"{gone} tensors of EMA weights ({LEFT_OUT}*) are left out; the weights beside them are merged"
            tied = {name: twin for name, twin in source.tied.items() if twin in kept and not name.startswith(LEFT_OUT)}
            source = RenamedSource(source, kept, note)
            source.tied = tied
        known = layout_of(kept)
        source.layout = f"{known.name} single file" if known else ""
        source.unmerged = UNMERGED
        return source


views["diffusion_file"] = DiffusionFile()
