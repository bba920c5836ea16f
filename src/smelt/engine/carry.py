"""What comes along with the weights, so that the output loads like any model: config, tokenizer, processor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.engine.plan import Plan
from smelt.pool.config import read_config, updated_config

__all__ = ["carried_files", "small_files"]

_CARRIED = (
    "config.json", "generation_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "bpe_simple_vocab_16e6.txt.gz", "*.model", "*.tiktoken", "*.spm",
    "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "video_preprocessor_config.json", "feature_extractor_config.json",
    "chat_template.json", "chat_template.jinja", "additional_chat_templates/*.jinja",
)  # fmt: skip


def carried_files(plan: Plan, folder: Path | None, dtype: str | None) -> dict[str, bytes | Path]:
    """Every small file of a model folder that the output needs, with the config brought up to date."""
    files: dict[str, bytes | Path] = dict(small_files(folder))
    config = read_config(folder)
    if config is not None:
        files["config.json"] = _json(updated_config(config, dtype=dtype, layers=plan.layers))
    return files


def small_files(folder: Path | None) -> dict[str, Path]:
    """The files beside the weights of a model folder, as they are."""
    if folder is None:
        return {}
    files = {str(path.relative_to(folder)): path for pattern in _CARRIED for path in sorted(folder.glob(pattern))}
    config = read_config(folder)
    return files | ({code.name: code for code in _custom_code(folder, config)} if config else {})


def _custom_code(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """The modules that `auto_map` names: a model with code of its own does not load without them."""
    auto_map = config.get("auto_map")
    if not isinstance(auto_map, Mapping):
        return []
    named = any(isinstance(v, str) and "--" not in v for v in auto_map.values())
    return sorted(folder.glob("*.py")) if named else []


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
