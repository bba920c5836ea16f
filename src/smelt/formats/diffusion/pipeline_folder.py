"""A folder of diffusers: model_index.json names the components, each of which lies in a sub-folder of its own.

Every component with weights is part of the model, under its name: `unet.`, `transformer.`, `text_encoder.`, `vae.`.
Of a component that is stored several times the full precision counts: `diffusion_pytorch_model.safetensors` before
`diffusion_pytorch_model.fp16.safetensors` before a pickle. The output has plain names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, names_in, read_json_table
from smelt.formats.components import ComponentsSource
from smelt.formats.part_folders import MODEL_INDEX
from smelt.formats.safetensors import open_named
from smelt.formats.source import Component, Source

__all__ = ["open_pipeline", "pipeline_components", "unmerged_components"]

_STEMS = ("diffusion_pytorch_model", "model")
_PICKLES = {"diffusion_pytorch_model.bin": _STEMS[0], "pytorch_model.bin": _STEMS[1]}
_VARIANT = re.compile(r"(?P<stem>.+?)(\.safetensors\.index\.(?P<ofindex>\w+)\.json|\.(?P<offile>\w+)\.safetensors)")
_NO_WEIGHTS = re.compile(r"(Tokenizer|TokenizerFast|Scheduler|Processor|Extractor)$")
"""Classes of components that have none."""
_UNMERGED = {
    r"vae.*|.*_vae|vqvae|vqgan|movq": "the VAE, which says what latents mean",
    r"safety_checker": "the safety checker",
    r".*image_encoder": "the image encoder",
    r"vocoder": "the vocoder",
}
"""Components that are taken from the base, or the first model, unless a recipe names them."""


def open_pipeline(path: Path, *, allow_pickle: bool = False) -> Source:
    """All components of a pipeline as one model; CorruptFile where one is missing or damaged."""
    parts: dict[str, Source] = {}
    places: dict[str, Component] = {}
    notes: list[str] = []
    try:
        for name, kind in pipeline_components(path).items():
            folder = path / name
            if not (is_there(folder) and folder.is_dir()):
                raise CorruptFile(f"{path}: {MODEL_INDEX} names the component {shortened(name)!r}, but it is not there")
            if _NO_WEIGHTS.search(kind) or not is_there(folder / "config.json"):
                continue
            parts[f"{name}."], stem, variant = _open(folder, allow_pickle)
            places[f"{name}."] = Component(name, stem)
            if variant:
                notes.append(
                    f"{name} is read from its variant {variant}, the only one there; the output has plain names"
                )
        if not any(part.tensors for part in parts.values()):
            raise CorruptFile(f"{path}: none of the components that {MODEL_INDEX} names has weights")
    except BaseException:
        for part in parts.values():
            part.close()
        raise
    source = ComponentsSource(str(path), path, parts, places)
    source.notes = (*source.notes, *notes)
    source.layout = "diffusers folder"
    source.unmerged = unmerged_components(places[prefix].folder for prefix in parts)
    return source


def pipeline_components(path: Path) -> dict[str, str]:
    """The class of every component that a pipeline has, by its name."""
    found: dict[str, str] = {}
    for name, entry in read_json_table(path / MODEL_INDEX).items():
        if not isinstance(entry, list) or name.startswith("_") or entry == [None, None]:
            continue
        if len(entry) != 2 or not all(isinstance(word, str) for word in entry):
            raise CorruptFile(f"{path / MODEL_INDEX}: {shortened(name)!r} should name a library and a class")
        if not name.strip(".") or Path(name).name != name:
            raise CorruptFile(f"{path / MODEL_INDEX}: {shortened(name)!r} is no name of a component")
        found[name] = entry[1]
    if not found:
        raise CorruptFile(f"{path / MODEL_INDEX}: names no component")
    return found


def unmerged_components(names: Iterable[str]) -> Mapping[str, str]:
    """The patterns of those that are not merged unless a recipe names them, and why."""
    return {f"{name}.*": why for name in names for kind, why in _UNMERGED.items() if re.fullmatch(kind, name)}


def _open(folder: Path, allow_pickle: bool) -> tuple[Source, str, str]:
    """The weights of a component, the stem of their names, and their variant where there are no others."""
    names = names_in(folder)
    for stem in _STEMS:
        if (found := open_named(folder, f"{stem}.safetensors", f"{stem}.safetensors.index.json")) is not None:
            return found, stem, ""
    variants = sorted(_variants(names))
    if len(variants) > 1:
        several = ", ".join(variant for _, variant in variants)
        raise CorruptFile(f"{folder}: holds only variants of the weights ({several}); keep the one that is meant")
    for stem, variant in variants:
        index = f"{stem}.safetensors.index.{variant}.json"
        if (found := open_named(folder, f"{stem}.{variant}.safetensors", index)) is not None:
            return found, stem, variant
    for name, stem in _PICKLES.items():
        if name in names:
            from smelt.formats.pickles import open_pickles

            return open_pickles(folder, [folder / name], allow=allow_pickle), stem, ""
    raise CorruptFile(
        f"{folder}: has a config.json but no weights ({_STEMS[0]}.safetensors or {_STEMS[1]}.safetensors)"
    )


def _variants(names: list[str]) -> set[tuple[str, str]]:
    """(stem, variant) of every set of weights with a word for its variant."""
    found: set[tuple[str, str]] = set()
    for name in names:
        match = _VARIANT.fullmatch(name)
        if match is not None and match["stem"] in _STEMS:
            found.add((match["stem"], match["ofindex"] or match["offile"]))
    return found
