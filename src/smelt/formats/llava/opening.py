"""A checkpoint of LLaVA's own layout opened: the whole model, or the first stage's projector over its language model.

The vision tower is the one that the config names (`mm_vision_tower`, as openai/clip-vit-large-patch14-336), unless the
checkpoint has one of its own, which a fine-tune of the tower leaves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import names_in
from smelt.formats.composed import ComposedSource, Part
from smelt.formats.folder_files import read_config
from smelt.formats.llava.folder import translated_folder
from smelt.formats.llava.layout import PROJECTOR_FILE, check_known, common_name, is_own_layout, tower_name
from smelt.formats.llava.words import vocabulary
from smelt.formats.safetensors import complete_shards, open_folder
from smelt.formats.source import Source
from smelt.formats.views.llava import LANGUAGE, TOWER

if TYPE_CHECKING:
    from smelt.formats.open import OpenOptions

__all__ = ["is_own_llava", "is_projector", "open_own_llava", "open_projector"]

_SHARDS = re.compile(r"^pytorch_model(-\d{5}-of-\d{5})?\.bin$")
_EMBEDDED = (f"{LANGUAGE}embed_tokens.weight", "lm_head.weight")
_NOTE = "a checkpoint of LLaVA's own layout, read under the names of transformers' LLaVA"


def is_own_llava(path: Path) -> bool:
    """Whether a folder is such a model, with its language model."""
    return path.is_dir() and is_own_layout(read_config(path)) and bool(_weights(path))


def is_projector(path: Path) -> bool:
    """Whether a folder holds what the first stage of training leaves: a projector, and no language model."""
    known = path.is_dir() and (path / PROJECTOR_FILE).is_file()
    return known and is_own_layout(read_config(path)) and not _weights(path)


def open_own_llava(path: Path, options: OpenOptions) -> Source:
    """The whole model in a folder."""
    config = _config(path)
    return _composed(str(path), config, [_opened(path, options.allow_pickle)], path, options)


def open_projector(language: Source, path: Path, options: OpenOptions) -> Source:
    """The model before its fine-tuning: a language model with the projector of the first stage."""
    from smelt.formats.pickles import open_pickles

    config = _config(path)
    texts = language.folder
    if texts is None:
        raise RecipeError(f"{language.label}: has no folder with a tokenizer, so no LLaVA can be made of it")
    projector = open_pickles(path, [path / PROJECTOR_FILE], allow=options.allow_pickle)
    return _composed(f"{language.label}+{path}", config, [language, projector], texts, options)


def _composed(
    label: str, config: Mapping[str, Any], sources: list[Source], texts: Path, options: OpenOptions
) -> ComposedSource:
    own = {name for source in sources for stored in source.tensors if (name := common_name(stored)) is not None}
    tower = options.open_base(_tower_ref(str(config["mm_vision_tower"])), texts)
    assert tower.folder is not None
    parts = [Part(source, common_name) for source in sources]
    if not any(name.startswith(TOWER) for name in own):
        parts = [Part(tower, tower_name), *parts]
    else:
        tower.close()
    rows = vocabulary(int(config["vocab_size"]))
    found = ComposedSource(
        label, parts, translated_folder(config, texts, tower.folder), dict.fromkeys(_EMBEDDED, rows), _NOTE
    )
    strange = next((name for name in found.tensors if not name.startswith((*_PREFIXES, "lm_head."))), None)
    if strange is not None:
        raise CorruptFile(f"{label}: {strange!r} is no tensor of a LLaVA")
    return found


_PREFIXES = (LANGUAGE, TOWER, "model.multi_modal_projector.")


def _tower_ref(name: str) -> str:
    """A path, or a name on the Hugging Face hub."""
    return f"hf:{name}" if ":" not in name and name.count("/") == 1 and not Path(name).exists() else name


def _config(path: Path) -> Mapping[str, Any]:
    config = read_config(path) or {}
    check_known(config, str(path))
    return config


def _weights(path: Path) -> list[str]:
    """The files of the whole model's weights; the projector alone, which older checkpoints hold once more, is none."""
    names = names_in(path)
    safe = [name for name in names if name.endswith(".safetensors")]
    return safe or [name for name in names if _SHARDS.match(name)]


def _opened(path: Path, allow_pickle: bool) -> Source:
    from smelt.formats.pickles import open_pickles

    names = _weights(path)
    if names[0].endswith(".safetensors"):
        return open_folder(path)
    return open_pickles(path, complete_shards(path, [path / name for name in names]), allow=allow_pickle)
