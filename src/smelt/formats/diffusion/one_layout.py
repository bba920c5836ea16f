"""One diffusion model in two layouts: read under the names of the reference, where tensors correspond one to one.

That is so for files with and without `model.diffusion_model.` before the names, and for an SD1.5 in a folder and in a
single file. Elsewhere one of the layouts has tensors in one that are several in the other (queries, keys and values of
Flux, the second text encoder of SDXL): such models stay as they are, and are refused by their layouts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from smelt.formats.diffusion.unet_names import file_names
from smelt.formats.source import Source
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.recipe.patterns import matches

__all__ = ["in_layout_of"]

_NET, _TEXT = "model.diffusion_model.", "cond_stage_model.transformer.text_model."


def in_layout_of(reference: Source, source: Source) -> Source:
    """The source itself, or a view of it under the names of the reference."""
    if not reference.layout or not source.layout or reference.tensors.keys() == source.tensors.keys():
        return source
    theirs = {common: name for name, common in _common_names(reference.tensors).items()}
    found = {name: theirs.get(common, name) for name, common in _common_names(source.tensors).items()}
    wanted = {name for name in reference.tensors if not _is_unmerged(name, reference)}
    if found.keys() == set(found.values()) or not wanted <= set(found.values()):
        return source
    kept = {
        name: Piece(stored, 0, source.tensors[stored])
        for stored, name in found.items()
        if name in reference.tensors or not _is_unmerged(stored, source)
    }
    view = RenamedSource(source, kept, f"{source.layout}: read under the names of {reference.label}")
    view.layout, view.unmerged = reference.layout, reference.unmerged
    return view


def _is_unmerged(name: str, source: Source) -> bool:
    return any(matches(pattern, name) for pattern in source.unmerged)


def _common_names(names: Collection[str]) -> Mapping[str, str]:
    """What single files without a prefix call the tensors of the network, and the text encoder's behind one word."""
    unet = {name.removeprefix("unet."): name for name in names if name.startswith("unet.")}
    common = {unet[name]: other for name, other in file_names(unet).items()}
    return {name: common.get(name) or _without_prefix(name) for name in names}


def _without_prefix(name: str) -> str:
    if name.startswith("text_encoder."):
        return f"text:{name.removeprefix('text_encoder.').removeprefix('text_model.')}"
    return f"text:{name.removeprefix(_TEXT)}" if name.startswith(_TEXT) else name.removeprefix(_NET)
