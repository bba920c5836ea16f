"""What the parents of a merged sentence-transformers model have to agree about, beside their configs.

modules          which there are, in which order: one with and one without normalisation are two models
pooling          how vectors of tokens become one, in the words of newer folders
prompts          what is put before a text, and which one if none is named
similarity       how two vectors are compared; where nothing is said the cosine, of sparse ones the dot product

Every word is written down whatever a folder leaves out, so that one that says nothing and one that says the default are
alike. Other modules without weights are compared by their own config.json; a dense layer's is compared as any config.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.files.reading import is_there, read_json_table
from smelt.formats.folder_files import component_configs, read_config
from smelt.formats.part_folders import MODULES
from smelt.formats.sentence_transformers.modules import Module, read_modules
from smelt.formats.sentence_transformers.source import module_folders
from smelt.formats.source import Source

__all__ = ["SETTINGS", "main_config", "module_settings", "module_words"]

SETTINGS = "config_sentence_transformers.json"
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""A switch of older folders -> the name of the mode."""


_RENAMED = {"MLMTransformer": "Transformer", "CLIPModel": "Transformer"}
"""A class of older folders -> the one that does the same in newer ones."""


def module_settings(folder: Path | None) -> dict[str, Mapping[str, Any]]:
    """What a folder says of all that, by the file that says it; nothing where it is no such folder."""
    if folder is None or not is_there(folder / MODULES):
        return {}
    modules = read_modules(folder)
    found: dict[str, Mapping[str, Any]] = {
        MODULES: {"modules": [_RENAMED.get(module.kind, module.kind) for module in modules]}
    }
    for module in modules:
        if module.kind == "Pooling":
            found[f"{module.path}/config.json"] = _pooling(module.config(folder))
        elif module.path and not module_folders(folder, module):
            found[f"{module.path}/config.json"] = module.config(folder)
    said = read_json_table(folder / SETTINGS) if is_there(folder / SETTINGS) else {}
    prompts, kind = said.get("prompts"), said.get("model_type", "SentenceTransformer")
    found[SETTINGS] = {
        "model_type": kind,
        "prompts": _written(prompts) if isinstance(prompts, Mapping) else "none",
        "default_prompt_name": said.get("default_prompt_name"),
        "similarity_fn_name": said.get("similarity_fn_name") or ("dot" if kind == "SparseEncoder" else "cosine"),
    }
    return found


def main_config(source: Source) -> dict[str, Any]:
    """The config.json of its transformer, wherever that lies."""
    return component_configs(source).get("") or read_config(source.folder) or {}


def module_words(folder: Path) -> str:
    """The modules in a few words, for people: `Transformer, Pooling (mean), Dense (384 to 256), Normalize`."""
    return ", ".join(_word(module, module.config(folder)) for module in read_modules(folder))


def _word(module: Module, config: Mapping[str, Any]) -> str:
    if module.kind == "Pooling":
        return f"Pooling ({_pooling(config)['pooling_mode']})"
    if module.kind == "Dense":
        return f"Dense ({config.get('in_features')} to {config.get('out_features')})"
    return module.kind


def _pooling(config: Mapping[str, Any]) -> dict[str, Any]:
    mode = config.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else mode if isinstance(mode, list) else None
    if modes is None:
        modes = [name for switch, name in _OLD_MODES.items() if config.get(switch)]
    return {
        "pooling_mode": " and ".join(sorted(map(str, modes))) or "mean",
        "include_prompt": config.get("include_prompt", True),
    }


def _written(prompts: Mapping[str, Any]) -> str:
    """An empty prompt is none: newer folders write two of them."""
    return ", ".join(f"{name}={text!r}" for name, text in sorted(prompts.items()) if text) or "none"
