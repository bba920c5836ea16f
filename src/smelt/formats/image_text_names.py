"""A model of pictures and texts under the names that it has in memory, whatever layout its files have.

Public LLaVA files, and those that `save_pretrained` writes, say `language_model.model.layers.0...` where the model and
the adapters trained over it say `model.language_model.layers.0...`. Here all say the latter, so that they merge; the
library loads both.
"""

from __future__ import annotations

from smelt.formats.renamed import Piece, RenamedSource
from smelt.formats.source import Source

__all__ = ["with_module_names"]


def with_module_names(source: Source) -> Source:
    """The source itself, or a view of it if its config says that it is such a model and its names are others."""
    from smelt.formats.config import read_config
    from smelt.models.families.image_text.kinds import KINDS

    kind = KINDS.get(str((read_config(source.folder) or {}).get("model_type")))
    if kind is None or all(kind.plain(name) == name for name in source.tensors):
        return source
    view = RenamedSource(source, {kind.plain(name): Piece(name, 0, info) for name, info in source.tensors.items()})
    view.tied = {kind.plain(name): kind.plain(twin) for name, twin in source.tied.items()}
    return view
