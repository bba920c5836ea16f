"""The tokenizer that a GGUF file carries, as the files that transformers reads.

In: the file's metadata. Out: the content of tokenizer.json and tokenizer_config.json. Byte-level BPE only, and only
with a splitting rule that is known by its name (`tokenizer.ggml.pre`): a wrong one reads numbers and spaces in pieces
that the model never saw, which nothing would tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smelt.errors import RecipeError, unknown

__all__ = ["PATTERNS", "PRE", "is_known", "tokenizer_files"]

_CONTROL, _USER = 3, 4
"""Kinds of tokens that text never becomes part of."""
_BYTES: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS: dict[str, Any] = {"type": "Digits", "individual_digits": True}
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"llama-bpe": _WORDS % r"\p{N}{1,3}", "qwen2": _WORDS % r"\p{N}"}
"""The pieces of text that merges never cross, by llama.cpp's name for them."""


def _split(pattern: str) -> dict[str, Any]:
    pieces = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [pieces, {**_BYTES, "use_regex": False}]}


PRE: dict[str, dict[str, Any]] = {
    "gpt-2": _BYTES,
    "smollm": {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTES]},
    **{name: _split(pattern) for name, pattern in PATTERNS.items()},
}
"""How text is cut before the merges, by llama.cpp's name for it."""


def is_known(metadata: Mapping[str, Any]) -> bool:
    """Whether `tokenizer_files` reads this one. Lists that are too long for the header's reader are not there."""
    lists = all(metadata.get(f"tokenizer.ggml.{name}") is not None for name in ("tokens", "merges"))
    return lists and metadata.get("tokenizer.ggml.model") == "gpt2" and metadata.get("tokenizer.ggml.pre") in PRE


def tokenizer_files(metadata: Mapping[str, Any], where: str) -> dict[str, str]:
    """Text by file name."""
    kind, pre = metadata.get("tokenizer.ggml.model"), str(metadata.get("tokenizer.ggml.pre"))
    if kind != "gpt2":
        raise RecipeError(f"{where}: has a tokenizer of kind {kind!r}; only byte-level BPE (gpt2) is read")
    if pre not in PRE:
        raise RecipeError(f"{where}: {unknown('way to cut text (tokenizer.ggml.pre)', pre, PRE)}")
    tokens = list(metadata["tokenizer.ggml.tokens"])
    kinds = list(metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens))
    merges = [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]]
    special = [number for number, kind in enumerate(kinds) if kind in (_CONTROL, _USER)]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(number, tokens[number], kinds[number] == _CONTROL) for number in special],
        "normalizer": None,
        "pre_tokenizer": PRE[pre],
        "post_processor": _beginning(metadata, tokens),
        "decoder": _BYTES,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    return {
        "tokenizer.json": json.dumps(content, ensure_ascii=False, indent=1) + "\n",
        "tokenizer_config.json": json.dumps(_config(metadata, tokens), ensure_ascii=False, indent=2) + "\n",
    }


def _added(number: int, token: str, special: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **plain, "special": special}


def _beginning(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    """What puts the token that begins a text before it, where the file asks for that."""
    number = metadata.get("tokenizer.ggml.bos_token_id")
    if metadata.get("tokenizer.ggml.add_bos_token") is not True or type(number) is not int:
        return None
    token = tokens[number]
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    one, other = ({"Sequence": {"id": name, "type_id": at}} for at, name in enumerate("AB"))
    again = {"SpecialToken": {"id": token, "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [special, one],
        "pair": [special, one, again, other],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _config(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    places = {role: metadata.get(f"tokenizer.ggml.{word}_token_id") for role, word in roles.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(metadata.get(f"{metadata.get('general.architecture')}.context_length", 2048)),
        **{role: tokens[place] for role, place in places.items() if place is not None},
        **({"chat_template": metadata["tokenizer.chat_template"]} if "tokenizer.chat_template" in metadata else {}),
    }
