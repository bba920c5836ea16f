"""What the small files beside a model's weights say of it: config, tokenizer, card, manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.engine.sink.provenance import MARK
from smelt.files.reading import find_json_table, names_in, read_bytes, read_text
from smelt.formats.architecture.layout import Layout
from smelt.inspection.model_facts import Provenance, TensorFacts

__all__ = ["licence_of", "provenance_of", "sizes_of", "tied_of", "tokenizer_of", "vocabulary_of"]

_SIZES = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "embed_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_key_value_heads",),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions"),
}
"""What configs of many models call their sizes, by the word that most of them have."""
_MODEL = re.compile(rb'"model"\s*:\s*\{\s*"type"\s*:\s*"(\w+)"')
_FILES = {
    r".*\.model|.*\.spm": "SentencePiece",
    r".*\.tiktoken|tekken\.json": "tiktoken",
    r"vocab\.json|merges\.txt|bpe_.*": "BPE",
    r"vocab\.txt": "WordPiece",
}
"""What a tokenizer is that has no tokenizer.json, by the names of its files."""
_HEAD = re.compile(r"\A---\r?\n(.*?)\r?\n---\r?\n", re.DOTALL)
_LICENCE = re.compile(r"^(?P<word>license|license_name):(?P<name>[^#\n]+)", re.MULTILINE)
_MOST = 16 << 20
_NO_WORDS_OUT = re.compile(r"(?<!LMHead)Model$|For(SequenceClassification|TokenClassification|QuestionAnswering)$")
"""Architectures that write no words, so that there is no head to tie."""


def sizes_of(config: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Sizes by part: under an empty name those of the config itself, under `text` those of its text_config."""
    found = {"": _own_sizes(config)}
    for key, section in config.items():
        if key.endswith("_config") and isinstance(section, Mapping):
            found[key.removesuffix("_config")] = _own_sizes(section)
    return {part: sizes for part, sizes in found.items() if sizes}


def _own_sizes(section: Mapping[str, Any]) -> dict[str, int]:
    words = ((own, next((section[word] for word in words if word in section), None)) for own, words in _SIZES.items())
    return {own: value for own, value in words if type(value) is int}


def vocabulary_of(tensors: Sequence[TensorFacts], config: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """Rows of the table of tokens, else what the config says; and a note where the two do not agree."""
    tables = [one for one in tensors if Layout.holds_vocabulary(one.name) and len(one.shape) == 2]
    tables.sort(key=lambda one: "head" in one.name or "output" in one.name)
    rows = tables[0].shape[0] if tables else None
    inner = config.get("text_config")
    said = config.get("vocab_size", inner.get("vocab_size") if isinstance(inner, Mapping) else None)
    if type(said) is not int:
        return rows, None
    if rows is not None and rows != said:
        return rows, f"config.json says vocab_size {said:,}, but {tables[0].name} has {rows:,} rows"
    return said, None


def tied_of(tensors: Sequence[TensorFacts], config: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """The head that is the embedding, by the config; a note where the file holds both all the same. Configs of models
    that have no such head (an encoder, a classifier of texts) say nothing by that word.
    """
    named = config.get("architectures")
    if isinstance(named, list) and named and _NO_WORDS_OUT.search(str(named[0])):
        return {}, None
    inner = config.get("text_config")
    tie = config.get("tie_word_embeddings", inner.get("tie_word_embeddings") if isinstance(inner, Mapping) else None)
    tables = [one.name for one in tensors if Layout.holds_vocabulary(one.name) and one.name.endswith(".weight")]
    heads = [name for name in tables if "head" in name or "output" in name or "embed_out" in name]
    embedding = next((name for name in tables if name not in heads), None)
    if tie is not True or embedding is None:
        return {}, None
    if heads:
        return {}, f"config.json ties {heads[0]} to {embedding}; the file holds both"
    return {"lm_head.weight": embedding}, None


def tokenizer_of(folder: Path | None) -> str | None:
    """The kind of tokenizer in a folder."""
    if folder is None:
        return None
    names = names_in(folder)
    if "tokenizer.json" in names:
        return _kind_in_json(folder / "tokenizer.json") or "tokenizer.json"
    return next((kind for pattern, kind in _FILES.items() if any(re.fullmatch(pattern, one) for one in names)), None)


def _kind_in_json(path: Path) -> str | None:
    """The type of the `model` in a tokenizer.json, found without reading its vocabulary: that takes longer than all."""
    raw = read_bytes(path)
    at = raw.find(b'"model"')
    while at >= 0:
        if found := _MODEL.match(raw, at):
            return found[1].decode()
        at = raw.find(b'"model"', at + 1)
    return None


def licence_of(folder: Path | None) -> str | None:
    """The licence that a model card names in its head.

    Read line by line: loading a reader of YAML takes as long as all else here, and cards whose head is no good YAML
    have a licence, too.
    """
    path = folder / "README.md" if folder else None
    head = _HEAD.match(read_text(path, _MOST)) if path is not None and path.is_file() else None
    found = {} if head is None else {one["word"]: one["name"].strip(" \t\r\"'[]") for one in _LICENCE.finditer(head[1])}
    return found.get("license_name") or found.get("license")


def provenance_of(folder: Path | None) -> Provenance | None:
    """What the manifest of a folder says, where Smelt wrote one."""
    if folder is None or not MARK.is_on(folder):
        return None
    content = find_json_table(folder / MARK.name) or {}
    return Provenance(
        str(content.get("smelt")),
        tuple(_methods(content)),
        {
            str(name): str(one.get("ref") or one.get("name"))
            for name, one in _table(content.get("parents")).items()
            if _table(one)
        },
        str(content["recipe_hash"]) if content.get("recipe_hash") else None,
    )


def _methods(content: Mapping[str, Any]) -> Iterator[str]:
    stages = content.get("stages")
    if isinstance(stages, list):
        yield from map(str, stages)
    if content.get("mix"):
        yield str(content["mix"])


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
