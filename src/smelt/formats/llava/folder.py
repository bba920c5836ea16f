"""The small files of a LLaVA of the own layout, in Hugging Face's words: config, tokenizer and processor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.files.reading import find_json_table, read_bytes
from smelt.formats.llava.words import (
    PAD,
    TEMPLATE,
    added_tokens,
    config_words,
    picture_words,
    processor_words,
    with_added_tokens,
)
from smelt.formats.small_files_made import folder_of

__all__ = ["translated_folder"]

_COPIED = ("tokenizer.model", "special_tokens_map.json", "generation_config.json", "vocab.json", "merges.txt")
_PICTURES = "preprocessor_config.json"


def translated_folder(config: Mapping[str, Any], texts: Path, tower: Path) -> Path:
    """The folder for a model with this config, the tokenizer in `texts` and the vision tower in `tower`."""
    told = find_json_table(tower / "config.json")
    pictures = find_json_table(texts / _PICTURES) or find_json_table(tower / _PICTURES)
    if told is None or pictures is None:
        raise RecipeError(f"{tower}: has no config.json or no {_PICTURES}, so it is no vision tower of a LLaVA")
    words = config_words(config, told)
    tables = {
        "config.json": words,
        _PICTURES: picture_words(pictures, config),
        "processor_config.json": processor_words(words),
        **_tokenizer(texts, int(config["vocab_size"])),
    }
    copied = {name: read_bytes(texts / name) for name in _COPIED if (texts / name).is_file()}
    copied["chat_template.jinja"] = TEMPLATE.encode()
    return folder_of(tables, copied)


def _tokenizer(texts: Path, words: int) -> dict[str, Any]:
    known = find_json_table(texts / "tokenizer_config.json") or {}
    older = known.get("added_tokens_decoder") or {}
    found: dict[str, Any] = {
        "tokenizer_config.json": {
            **{word: value for word, value in known.items() if word != "chat_template"},
            "added_tokens_decoder": {**older, **added_tokens(words)},
            "pad_token": PAD,
            "processor_class": "LlavaProcessor",
        }
    }
    whole = find_json_table(texts / "tokenizer.json")
    return found if whole is None else {**found, "tokenizer.json": with_added_tokens(whole, words)}
