"""Smelt's zoo: small real models, real tasks and a semantic graph, so that everything runs without a network.

`models()` and `tasks()` give the folders by name; `smelt` resolves `zoo:NAME` through them. `graph()` is the semantic
graph that models of a hub are tested on, `caption_vectors()` what an embedder makes of its captions, `hub_models()`
which of the models are in the zoo's own hub.
`language_models()` and `language()` are the language models and their tasks, `multimodal_models()` and `questions()`
the models of pictures and texts and the sets of questions for them.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = [
    "caption_vectors",
    "graph",
    "hub_models",
    "language",
    "language_models",
    "models",
    "multimodal_models",
    "questions",
    "tasks",
]

_HERE = Path(__file__).resolve().parent


def models() -> dict[str, Path]:
    """Model folders by name: `clip-tiny`, `clip-tiny-rn`, `clip-mini`, and delta packs over them."""
    found = sorted(_HERE.glob("models/*/config.json"))
    return {path.parent.name: path.parent for path in found if not (path.parent / "origin.json").is_file()}


def language_models() -> dict[str, Path]:
    """Folders of language models by name: one that lies in a package (origin.json), and adapters over it."""
    return {name: folder for name, folder in _not_whole().items() if not _is_multimodal(folder)}


def multimodal_models() -> dict[str, Path]:
    """Folders of models of pictures and texts: one with another model's tower (origin.json), and adapters over it."""
    found = {name: folder for name, folder in _not_whole().items() if _is_multimodal(folder)}
    return dict(sorted(found.items(), key=lambda one: (one[1] / "adapter_config.json").is_file()))


def _not_whole() -> dict[str, Path]:
    """Folders that need another model or a package beside them."""
    found = [*_HERE.glob("models/*/origin.json"), *_HERE.glob("models/*/adapter_config.json")]
    return {path.parent.name: path.parent for path in sorted(found)}


def _is_multimodal(folder: Path) -> bool:
    """Whether a model has a vision tower of another one, or is an adapter over one that has."""
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        base = str(json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path"))
        folder = folder.parent / base.removeprefix("zoo:")
    note = folder / "origin.json"
    return note.is_file() and json.loads(note.read_text(encoding="utf-8")).get("kind") == "towers"


def language() -> dict[str, Path]:
    """Folders of language tasks by name, each with a harness.yaml of the lm-evaluation-harness."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("language/*/harness.yaml"))}


def questions() -> dict[str, Path]:
    """Folders of question sets by name, each with a questions.yaml."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("questions/*/questions.yaml"))}


def tasks() -> dict[str, Path]:
    """Task folders by name: the eight that models are trained for, and others that nothing is trained for."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("tasks/*/task.yaml"))}


def graph() -> Path:
    """The folder of the semantic graph: WordNet nouns with pictures in several styles."""
    return _HERE / "graph"


def caption_vectors() -> Path:
    """Vectors of the captions of the graph's nodes; the file says of which embedder."""
    return graph() / "captions.safetensors"


def hub_models() -> list[str]:
    """The names of the models in the zoo's hub: all but the second set of experts, which are much like the first."""
    return [name for name in models() if not name.endswith("-b")]
