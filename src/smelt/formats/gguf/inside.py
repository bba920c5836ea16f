"""What a GGUF file holds beside its weights, as the small files of a Hugging Face folder.

In: the file, and the config made of its metadata. Out: config.json, generation_config.json and the tokenizer's files. A
tokenizer is read by our own reader where that knows how text is cut, else by transformers; where neither can, none is
given, and whoever writes a folder says so.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.formats.gguf.header import read_gguf_header
from smelt.formats.gguf.tokenizer_reader import is_known, tokenizer_files

__all__ = ["files_inside"]

_MOST_TOKENS = 1 << 22
"""And merges. No vocabulary is near."""
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def files_inside(path: Path, config: Mapping[str, Any] | None) -> dict[str, bytes]:
    """Content by name; `path` is the file, or the first part of a split model."""
    if config is None:
        return {}
    metadata = read_gguf_header(path, longest=_MOST_TOKENS).metadata
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
    found = {"config.json": _json(config), **({"generation_config.json": _json(ends)} if ends else {})}
    if is_known(metadata):
        return found | {name: text.encode() for name, text in tokenizer_files(metadata, str(path)).items()}
    return found | (_by_transformers(path) if "tokenizer.ggml.model" in metadata else {})


def _by_transformers(path: Path) -> dict[str, bytes]:
    """The files that transformers makes of it; none without transformers, or where it does not know the kind."""
    try:
        from transformers import AutoTokenizer

        found = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name, trust_remote_code=False)
    except Exception:  # each kind of tokenizer fails in a way of its own
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        found.save_pretrained(scratch)
        return {name: Path(scratch, name).read_bytes() for name in _TOKENIZER if Path(scratch, name).is_file()}


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(content), indent=2, ensure_ascii=False).encode() + b"\n"
