"""A folder beside no weights: config, tokenizer and processor of a LLaVA of the own layout, in Hugging Face's words.

It lies in the cache, under a hash of all that it is made from, so that whatever asks for a model's folder (merges that
copy its small files, evaluations that read its tokenizer) finds there what it would find at a model of Hugging Face's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from smelt.errors import OutputError, RecipeError
from smelt.files.cache import cached_path
from smelt.files.reading import find_json_table, read_bytes
from smelt.files.writing import atomic_folder, write_json
from smelt.formats.llava.words import (
    PAD,
    TEMPLATE,
    added_tokens,
    config_words,
    picture_words,
    processor_words,
    with_added_tokens,
)

__all__ = ["translated_folder"]

_VERSION = 1
"""Raised when the words come out otherwise."""
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
    folder = cached_path("llava", _key(tables, copied))
    if not folder.is_dir():
        with suppress(OutputError), atomic_folder(folder) as draft:
            for name, table in tables.items():
                write_json(draft / name, table)
            for name, content in copied.items():
                (draft / name).write_bytes(content)
            (draft / "chat_template.jinja").write_text(TEMPLATE)
        if not folder.is_dir():
            raise OutputError(f"{folder}: cannot be written; give $SMELT_CACHE a folder that can")
    return folder


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


def _key(tables: Mapping[str, Any], copied: Mapping[str, bytes]) -> str:
    said = json.dumps([_VERSION, TEMPLATE, tables], sort_keys=True).encode()
    parts = [said, *(f"{name}\0".encode() + content for name, content in sorted(copied.items()))]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]
