"""Why models do not fit each other, before the list of what does not fit: another family, size or number of layers.

In: an open pool whose tensors differ. Out: `hidden_size 128 (base) and 192 (birds)`, by the configs, and by the shapes
where a config is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from smelt.caller import word
from smelt.engine.pool import ModelPool
from smelt.errors import IncompatibleModels
from smelt.formats.architecture.layout import Layout
from smelt.formats.folder_files import component_configs, read_config
from smelt.formats.source import Source

__all__ = ["causes", "remedy", "with_causes"]

_KEYS = {
    "model_type": ("model_type", "_class_name"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim", "embed_dim"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "num_heads"),
    "num_key_value_heads": ("num_key_value_heads",),
    "vocab_size": ("vocab_size",),
}
"""What decides over shapes and names of tensors, and how configs call it."""
_SECTIONS = ("text_config", "vision_config", "llm_config", "audio_config")


@contextmanager
def with_causes(pool: ModelPool) -> Iterator[None]:
    """Refusals inside, where the tensors of the models differ, begin with the cause."""
    try:
        yield
    except IncompatibleModels as error:
        found = causes(pool)
        if not found or (_only(found, "vocab_size") and any("vocab" in fault for fault in error.faults)):
            raise  # the faults themselves say it, and better
        raise IncompatibleModels(error.faults, causes=found, remedy=remedy(found)) from None


def remedy(found: Sequence[str]) -> str:
    """What can be done all the same, where the models differ in one thing alone."""
    if _only(found, "num_hidden_layers"):
        return "a recipe's `slices` takes layers from each"
    if _only(found, "vocab_size"):
        return f"{word('vocab', 'base')} aligns them by token, if their tokenizers lie beside the weights"
    return ""


def causes(pool: ModelPool) -> list[str]:
    """In what the models differ, if their tensors do; nothing where that is not known."""
    if _alike(pool):
        return []
    facts = {name: _facts(source) for name, source in pool.all.items()}
    keys = dict.fromkeys(key for known in facts.values() for key in known)
    found = []
    for key in keys:
        values: dict[Any, list[str]] = {}
        for name, known in facts.items():
            if key in known:
                values.setdefault(known[key], []).append(name)
        if len(values) > 1:
            found.append(f"{key} " + " and ".join(f"{value} ({', '.join(who)})" for value, who in values.items()))
    if any(one.startswith("model_type") for one in found):  # two families differ in everything, which explains nothing
        return found[:1]
    return [one for one in found if not one.startswith("vocab_size")] or found


def _only(found: Sequence[str], key: str) -> bool:
    return len(found) == 1 and found[0].startswith(f"{key} ")


def _alike(pool: ModelPool) -> bool:
    shapes = [{key: info.shape for key, info in source.tensors.items()} for source in pool.all.values()]
    return all(one == shapes[0] for one in shapes[1:])


def _facts(source: Source) -> dict[str, Any]:
    """Family and size of a model: what its config says, else what its shapes tell."""
    found: dict[str, Any]
    if source.components:
        found = {"components": ", ".join(sorted(one.folder for one in source.components.values()))}
        for prefix, said in component_configs(source).items():
            found |= _said(said, prefix)
        return found
    config = read_config(source.folder)
    if config:
        found = dict(_said(config, ""))
        for section in _SECTIONS:
            if isinstance(inner := config.get(section), Mapping):
                found |= _said(inner, f"{section}.")
        if found:
            return found
    return _seen(source)


def _said(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, names in _KEYS.items():
        value = next((config[name] for name in names if isinstance(config.get(name), int | str)), None)
        if value is not None:
            yield f"{prefix}{key}", value


def _seen(source: Source) -> dict[str, Any]:
    """Width and number of layers, by the embedding and by the names."""
    found: dict[str, Any] = {}
    shapes = {key: info.shape for key, info in source.tensors.items()}
    embedding = next((key for key, shape in shapes.items() if Layout.holds_vocabulary(key) and len(shape) == 2), None)
    if embedding is not None:
        found["vocab_size"], found["hidden_size"] = shapes[embedding]
    layout = Layout.of(shapes)
    if layout.main_stack is not None:
        found["num_hidden_layers"] = layout.stacks[layout.main_stack]
    return found
