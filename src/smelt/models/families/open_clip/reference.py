"""`open_clip:ARCHITECTURE/TAG`: a pretrained model by open_clip's own words; `open_clip:ORG/NAME`: one of the Hub's.

    open_clip:RN50/openai       open_clip:convnext_base_w/laion2b_s13b_b82k       open_clip:apple/DFN2B-CLIP-ViT-B-16

A tag names a repository on the Hugging Face hub; OpenAI's weights too, which timm's repositories mirror there, so the
addresses of OpenAI's own server are not asked. What is fetched is put together as a folder in the cache: the config,
links to the one file of weights and to the tokenizer, and the config of a text tower that is another library's. From
there it is loaded without a network, and a hub copies it whole.

The repository's config says what the towers are; the architecture's name adds whether they compute with the quick GELU
(`RN101` and `RN101-quickgelu` share weights). OpenAI's always do: they were trained so, and open_clip 2 loaded them so
under either name (both have one accuracy in the MLL paper); open_clip 3 warns and computes something else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import OutputError, RecipeError, unknown
from smelt.files.cache import cached_path
from smelt.files.reading import read_json_table
from smelt.files.writing import atomic_folder
from smelt.formats.open import is_pickle
from smelt.models.download import fetch_files, listed_files
from smelt.models.families.open_clip.files import CONFIG, TEXT_CONFIG, TOKENIZER, find_weights, read_model_config
from smelt.models.families.open_clip.library import open_clip
from smelt.models.references import reference_scheme

__all__ = ["complete_folder", "open_clip_folder", "repository_of", "tag_repository"]

_SAFE = "open_clip_model.safetensors"
_CARD = ("README.md", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE")


@reference_scheme("open_clip")
def open_clip_folder(name: str, *, allow_pickle: bool = False) -> Path:
    """The folder of a pretrained model, fetched where it is not there."""
    first, slash, second = name.partition("/")
    if not slash or not first or not second or "/" in second:
        raise RecipeError(f"open_clip:{name}: write open_clip:ARCHITECTURE/TAG (RN50/openai) or open_clip:ORG/NAME")
    library = open_clip()
    if first not in library.list_models():
        return complete_folder(name, {}, allow_pickle=allow_pickle)
    tag = library.get_pretrained_cfg(first, second)
    if not tag:
        raise RecipeError(unknown(f"tag of open_clip's {first}", second, library.list_pretrained_tags_by_model(first)))
    return complete_folder(
        tag_repository(first, second), _words(library, first, second, tag), allow_pickle=allow_pickle
    )


def tag_repository(architecture: str, tag: str) -> str:
    """The repository that open_clip takes the weights of a tag from."""
    place = str(open_clip().get_pretrained_cfg(architecture, tag).get("hf_hub") or "")
    owner, _, rest = place.partition("/")
    repository, _, file = rest.partition("/")
    if not repository or file:
        raise RecipeError(f"open_clip:{architecture}/{tag}: its weights are not in a folder of the Hugging Face hub")
    return f"{owner}/{repository}"


def repository_of(name: str) -> str:
    """The repository on the Hub that a reference `open_clip:NAME` means; nothing of it is fetched."""
    first, _, second = name.partition("/")
    return tag_repository(first, second) if first in open_clip().list_models() else name


def complete_folder(repository: str, words: Mapping[str, Any], *, allow_pickle: bool = False) -> Path:
    """An open_clip model of the Hub with all that it needs, in the cache.

    `words` are what an architecture's name says: `quick_gelu`; `model_cfg` and `preprocess_cfg` for a repository that
    holds no config of its own.
    """
    name = repository.partition("@")[0]
    fetched = fetch_files(repository, [CONFIG, *TOKENIZER, *_CARD])
    commit = fetched.name
    weights = find_weights(listed_files(name, commit) or [path.name for path in fetched.iterdir()])
    if weights is None:
        raise RecipeError(f"hf:{repository} holds no weights that open_clip reads (open_clip_model.safetensors)")
    if is_pickle(weights) and not allow_pickle:
        raise RecipeError(
            f"hf:{repository} holds open_clip's weights as a pickle only ({weights}), which can run code when opened. "
            f"Write {option('allow_pickle')} to have it fetched, read with weights_only and kept as safetensors"
        )
    fetched = fetch_files(f"{name}@{commit}", [weights])
    content = _config(fetched, words, repository)
    text = content["model_cfg"]["text_cfg"]
    parts = {CONFIG: content, TEXT_CONFIG: _text_config(text)}
    files = {path.name: path for path in fetched.iterdir() if path.name in (*TOKENIZER, *_CARD)}
    if tokens := text.get("hf_tokenizer_name"):
        own = fetched if tokens == name else fetch_files(str(tokens), TOKENIZER)
        files = {file: path for file, path in files.items() if file in _CARD}
        files |= {path.name: path for path in own.iterdir() if path.name in TOKENIZER}
    key = hashlib.sha256(json.dumps([name, commit, weights, parts], sort_keys=True).encode()).hexdigest()
    folder = cached_path("open_clip", key[:32])
    if not _whole(folder):
        _put_together(folder, parts, files, fetched / weights)
    return folder


def _words(library: Any, architecture: str, tag: str, known: Mapping[str, Any]) -> dict[str, Any]:
    model = library.get_model_config(architecture)
    preprocess = {word: known[word] for word in ("mean", "std", "interpolation", "resize_mode") if word in known}
    quick = bool(model.get("quick_gelu", False)) or tag == "openai"
    return {"quick_gelu": quick, "model_cfg": model, "preprocess_cfg": preprocess}


def _config(fetched: Path, words: Mapping[str, Any], repository: str) -> dict[str, Any]:
    """What the repository says of its model, or the architecture where it says nothing."""
    if (fetched / CONFIG).is_file():
        content = read_model_config(fetched)
    elif "model_cfg" in words:
        content = {"model_cfg": dict(words["model_cfg"]), "preprocess_cfg": dict(words["preprocess_cfg"])}
    else:
        raise RecipeError(f"hf:{repository} has no {CONFIG}; name the model as open_clip:ARCHITECTURE/TAG")
    if "quick_gelu" in words:
        content["model_cfg"] = {**content["model_cfg"], "quick_gelu": words["quick_gelu"]}
    return {word: content[word] for word in ("model_cfg", "preprocess_cfg") if word in content}


def _text_config(text: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config of a text tower that is transformers', from its own repository."""
    name = text.get("hf_model_name")
    if not name:
        return None
    return read_json_table(fetch_files(str(name), ["config.json"]) / "config.json")


def _whole(folder: Path) -> bool:
    """Whether it is there, and what its links point to."""
    return folder.is_dir() and all(path.is_file() for path in folder.iterdir())


def _put_together(folder: Path, parts: Mapping[str, Any], files: Mapping[str, Path], weights: Path) -> None:
    try:
        with atomic_folder(folder, replace=folder.is_dir()) as draft:
            for name, content in parts.items():
                if content is not None:
                    (draft / name).write_text(json.dumps(content, indent=2))
            for name, path in files.items():
                os.symlink(path.resolve(), draft / name)
            if is_pickle(weights.name):
                _unpickle(weights, draft / _SAFE)
            else:
                os.symlink(weights.resolve(), draft / _SAFE)
    except OutputError:  # another process was first
        if not _whole(folder):
            raise


def _unpickle(weights: Path, safe: Path) -> None:
    """The same tensors as safetensors."""
    import torch
    from safetensors.torch import save_file

    try:
        content = torch.load(weights, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and zip all have their own
        raise RecipeError(f"{weights.name}: cannot be read as weights alone ({type(error).__name__})") from None
    state = content.get("state_dict", content) if isinstance(content, Mapping) else {}
    if not state or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise RecipeError(f"{weights.name}: does not hold a model's tensors")
    save_file({name.removeprefix("module."): tensor.contiguous().clone() for name, tensor in state.items()}, safe)
