"""Formats: what one is, Smelt's own, and opening what lies at a path with the first that recognises it.

A format knows its files when it sees them, and opens them as a Source. It is registered by its name
(`formats["mine"] = ...`), others by plug-ins: an entry point of the group `smelt.formats` names a module that does so.
Smelt's own are asked before all others; the reader of each is loaded when a path is its own. A LoRA adapter is opened
by references, which know its base.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias

from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import is_there, names_in
from smelt.formats.folder_files import identities_beside
from smelt.formats.part_folders import MODEL_INDEX, MODULES
from smelt.formats.quantised.scheme import dequantised
from smelt.formats.safetensors import INDEX, complete_shards, open_file, open_folder
from smelt.formats.source import Source
from smelt.formats.views.view import with_common_names
from smelt.registry import Registry

__all__ = [
    "Format",
    "OpenBase",
    "OpenOptions",
    "format_of",
    "formats",
    "gguf_models",
    "has_states",
    "is_adapter",
    "is_delta",
    "is_pickle",
    "open_path",
    "open_stored",
    "pickle_files",
]

_DELTA = "delta.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_TRAINER = re.compile(r"^(training_args|optimizer|scheduler|scaler|rng_state|random_states|adapter_model)")

OpenBase: TypeAlias = Callable[[str, Path], Source]
"""Opens the model that a reference names; a path may be relative to the folder."""


@dataclass(frozen=True)
class OpenOptions:
    """What a format may do while it opens a path."""

    open_base: OpenBase
    """For a format that stores a change of another model."""
    allow_pickle: bool = False
    part: str | None = None
    """For a format that holds several models: which one (`ema` of a training state)."""


class Format(Protocol):
    """One way to store a model."""

    def recognises(self, path: Path) -> bool:
        """Whether this folder or file is one of the format's, by names alone; the path is there."""

    def open(self, path: Path, options: OpenOptions) -> Source:
        """The model at a recognised path; CorruptFile where it is damaged."""


_SHARDS = "smelt.formats.shards.formats"
_OWN = {
    **dict.fromkeys(("mixture", "delta_pack", "diffusers", "sentence_transformers", "llava"), __name__),
    "dcp_safetensors": _SHARDS,
    **dict.fromkeys(("safetensors", "gguf"), __name__),
    **dict.fromkeys(("megatron", "dcp", "deepspeed", "fsdp_ranks"), _SHARDS),
    "pickle": __name__,
}
formats: Registry[Format] = Registry(
    "smelt.formats",
    own=lambda: _OWN,
    home=lambda found: type(found).__module__,
)
"""Every registered format by name."""
_WITH_STATES = ("dcp", "megatron", "pickle")
"""Formats that can hold several models: OpenOptions.part is one's name."""


def is_adapter(path: Path) -> bool:
    """Whether a folder holds a PEFT adapter."""
    return is_there(path / "adapter_config.json")


def is_delta(path: Path) -> bool:
    """Whether a folder holds a delta pack."""
    return (path / "delta.json").is_file()


def is_pickle(name: str) -> bool:
    """Whether a file of this name holds a model's weights as pickle; what trainers leave beside them does not."""
    return name.endswith(_PICKLES) and not _TRAINER.match(name)


def gguf_models(path: Path) -> list[Path]:
    """The GGUF models at a path, each by its file or its first part; what reads pictures for one is not counted."""
    from smelt.formats.gguf.parts import models_among

    if not path.is_dir():
        return [path] if path.suffix == ".gguf" else []
    return models_among(file for file in path.glob("*.gguf") if not file.name.startswith("mmproj"))


def pickle_files(path: Path) -> list[Path]:
    """The pickles of a model: one file, or the shards of a folder, all of them."""
    if not path.is_dir():
        return [path]
    return complete_shards(path, [path / name for name in names_in(path) if is_pickle(name)])


class _MixtureFolder:
    """What `smelt mix` writes: several sets of weights in one folder, so none that could be opened."""

    def recognises(self, path: Path) -> bool:
        return (path / "mix.json").is_file()

    def open(self, path: Path, options: OpenOptions) -> Source:
        raise RecipeError(
            f"{path}: is a mixture of several models (mix.json), not one set of weights; it can be evaluated, but not "
            "merged, packed or measured"
        )


class _DeltaPack:
    """A folder with delta.json, or the weights in it."""

    def recognises(self, path: Path) -> bool:
        return is_delta(self._folder(path))

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.packs.source import open_delta

        return open_delta(self._folder(path), options.open_base)

    def _folder(self, path: Path) -> Path:
        return path.parent if path.name == _DELTA else path


class _DiffusersPipeline:
    """A folder of diffusers: model_index.json, and a sub-folder for each component."""

    def recognises(self, path: Path) -> bool:
        return is_there(path / MODEL_INDEX)

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.diffusion.pipeline_folder import open_pipeline

        return open_pipeline(path, allow_pickle=options.allow_pickle)


class _OwnLlava:
    """A folder of LLaVA's own training code (`llava_llama`), with its language model."""

    def recognises(self, path: Path) -> bool:
        from smelt.formats.llava.opening import is_own_llava

        return is_there(path / "config.json") and is_own_llava(path)

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.llava.opening import open_own_llava

        return open_own_llava(path, options)


class _SentenceTransformers:
    """A folder with modules.json; a pickle at its top alone is read as any other."""

    def recognises(self, path: Path) -> bool:
        if not path.is_dir() or not (path / MODULES).is_file():
            return False
        return formats["safetensors"].recognises(path) or not formats["pickle"].recognises(path)

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.sentence_transformers.source import open_sentence_transformers

        return open_sentence_transformers(path, allow_pickle=options.allow_pickle, open_top=lambda: open_folder(path))


class _Safetensors:
    """A Hugging Face folder (sharded or not, with or without index), or one file."""

    def recognises(self, path: Path) -> bool:
        if not path.is_dir():
            return path.suffix == ".safetensors"
        return (path / INDEX).exists() or next(path.glob("*.safetensors"), None) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_folder(path) if path.is_dir() else open_file(path)


class _GGUF:
    """One file, or the parts of one model; or a folder with nothing but those."""

    def recognises(self, path: Path) -> bool:
        return len(gguf_models(path)) == 1

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.gguf.source import GGUFSource

        return GGUFSource(gguf_models(path)[0])


class _Pickle:
    """What torch.save writes: one file, or those of a folder. Refused unless it is allowed."""

    def recognises(self, path: Path) -> bool:
        return any(map(is_pickle, names_in(path))) if path.is_dir() else path.suffix in _PICKLES

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.pickles import open_pickles

        return open_pickles(path, pickle_files(path), allow=options.allow_pickle, part=options.part)


def format_of(path: Path) -> str:
    """The name of the first format that recognises a path. Plug-ins are looked for where none of Smelt's own does."""
    for name in chain(_OWN, formats):
        if formats[name].recognises(path):
            return name
    if several := gguf_models(path)[1:]:
        raise RecipeError(f"{path}: holds {len(several) + 1} GGUF models; name the file of one, such as {several[0]}")
    if path.is_dir():
        raise CorruptFile(f"{path}: no model weights (*.safetensors) in this folder")
    raise RecipeError(f"{path}: not a model (a folder, or a .safetensors or .gguf file)")


def open_path(
    path: Path, *, allow_pickle: bool = False, open_base: OpenBase | None = None, part: str | None = None
) -> Source:
    """The model at a path: a Hugging Face folder, a pack, a weights file, or what a plug-in's format knows.

    `open_base` opens the base that a pack names; without it, a base is looked for as a path seen from the pack. `part`
    is which of several models in a training checkpoint is meant.
    """
    source = open_stored(path, allow_pickle=allow_pickle, open_base=open_base, part=part)
    try:
        return with_common_names(dequantised(source))
    except BaseException:
        source.close()
        raise


def open_stored(
    path: Path, *, allow_pickle: bool = False, open_base: OpenBase | None = None, part: str | None = None
) -> Source:
    """The same as it is stored: under the names of its files, and codes as codes."""
    source = formats[format_of(path)].open(path, OpenOptions(open_base or _base_at_path, allow_pickle, part))
    source.label += f"#{part}" if part is not None else ""
    source.beside = source.beside or identities_beside(source.folder, source.files)
    return source


def has_states(path: Path) -> bool:
    """Whether a file or folder may hold several models: the states of a training."""
    return format_of(path) in _WITH_STATES


def _base_at_path(ref: str, folder: Path) -> Source:
    return open_path((folder / ref).resolve())


formats["mixture"] = _MixtureFolder()
formats["delta_pack"] = _DeltaPack()
formats["diffusers"] = _DiffusersPipeline()
formats["sentence_transformers"] = _SentenceTransformers()
formats["llava"] = _OwnLlava()
formats["safetensors"] = _Safetensors()
formats["gguf"] = _GGUF()
formats["pickle"] = _Pickle()
