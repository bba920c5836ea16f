"""config.json: what must agree between models, and what changes in the output's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.files.reading import is_there, read_json_table

__all__ = ["config_differences", "read_config", "updated_config"]

# Keys that may differ without changing what the merged weights compute: names, versions, ids, training settings.
_HARMLESS = frozenset(
    "_name_or_path _attn_implementation_autoset architectures auto_map bos_token_id decoder_start_token_id dtype"
    " eos_token_id finetuning_task forced_bos_token_id forced_eos_token_id id2label initializer_range label2id"
    " max_position_embeddings model_max_length num_labels pad_token_id pretraining_tp problem_type torch_dtype"
    " transformers_version unk_token_id use_cache vocab_size attention_dropout attention_probs_dropout_prob dropout"
    " hidden_dropout hidden_dropout_prob embd_pdrop resid_pdrop attn_pdrop classifier_dropout output_attentions"
    " output_hidden_states return_dict task_specific_params tokenizer_class unsloth_version unsloth_fixed"
    " _commit_hash license sep_token_id cls_token_id".split()
)
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def read_config(folder: Path | None) -> dict[str, Any] | None:
    """A folder's config.json, None where there is none."""
    path = folder / "config.json" if folder else None
    return read_json_table(path) if path is not None and is_there(path) else None


def config_differences(configs: Mapping[str, Mapping[str, Any] | None], ignore_layers: bool) -> list[str]:
    """`rope_theta is 10000.0 in a but 500000.0 in b`, for every key that changes what a model computes."""
    present = {name: config for name, config in configs.items() if config}
    if len(present) < 2:
        return []
    (first, reference), *others = present.items()
    ignored = _HARMLESS | (set(_LAYER_COUNTS) | {"layer_types", "max_window_layers"} if ignore_layers else set())
    return [
        f"{key} is {ours!r} in {first} but {theirs!r} in {name}"
        for name, config in others
        for key, ours, theirs in _unequal(reference, config, ignored, "")
    ]


def _unequal(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], ignored: Set[str], prefix: str
) -> Iterator[tuple[str, Any, Any]]:
    """The keys that both have with different values, tables compared entry by entry."""
    for key in sorted(ours.keys() & theirs.keys() - ignored):
        a, b = ours[key], theirs[key]
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _unequal(a, b, ignored, f"{prefix}{key}.")
        elif a != b:
            yield f"{prefix}{key}", a, b


def updated_config(
    config: Mapping[str, Any], *, dtype: str | None, layers: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Any]:
    """The output's config: its dtype, and its number of layers where stacks were sliced ({stack: source blocks})."""
    new: dict[str, Any] = copy.deepcopy(dict(config))
    for section in _sections(new):
        if dtype:
            present = [key for key in ("dtype", "torch_dtype") if section.get(key) is not None]
            for key in present or (["dtype"] if section is new else []):
                section[key] = dtype
    for stack, blocks in (layers or {}).items():
        _set_layers(_section_of(new, stack), blocks)
    return new


def _section_of(config: dict[str, Any], stack: str) -> dict[str, Any]:
    """The part of a config that counts the layers of a stack, judged by the stack's name."""
    tower = "vision" if "vision" in stack or "visual" in stack else "text"
    for key, section in config.items():
        if key.endswith("_config") and tower in key and isinstance(section, dict):
            return _section_of(section, stack)
    if any(key in config for key in _LAYER_COUNTS):
        return config
    raise RecipeError(f"config.json does not say how many layers {stack} has, so it cannot be sliced")


def _set_layers(section: dict[str, Any], blocks: Sequence[int]) -> None:
    """Count the sliced layers; a list with an entry per layer is cut along, as far as it reaches."""
    count = next(section[key] for key in _LAYER_COUNTS if key in section)
    for key in _LAYER_COUNTS:
        if key in section:
            section[key] = len(blocks)
    for key, value in section.items():
        if isinstance(value, list) and len(value) == count and key.startswith("layer"):
            section[key] = [value[min(block, count - 1)] for block in blocks]


def _sections(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The config itself and the nested ones of its text and vision parts."""
    inner = [value for key, value in config.items() if key.endswith("_config") and isinstance(value, dict)]
    return [config, *(section for part in inner for section in _sections(part))]
