"""Smelt's zoo: small real models, real tasks and a semantic graph, so that everything runs without a network.

`models()` and `tasks()` give the folders by name; `smelt` resolves `zoo:NAME` through them. `graph()` is the semantic
graph that models of a hub are tested on, `caption_vectors()` what an embedder makes of its captions, `hub_models()`
which of the models are in the zoo's own hub.
`language_models()` and `language()` are the language models and their tasks, `multimodal_models()` and `questions()`
the models of pictures and texts and the sets of questions for them.

This package holds what the demo needs. The rest lies in a second one, smelt_zoo_more, and is found where that is
installed; `names_in_more()` says what there is, installed or not.
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
    "names_in_more",
    "questions",
    "tasks",
]

_HERE = Path(__file__).resolve().parent
_CLIP = ("clip", "vision-text-dual-encoder")
"""The model types of CLIP models in transformers' configs."""
_NOT_IN_HUB = ("-b", "-expert", "-reader")


def models() -> dict[str, Path]:
    """Model folders by name: `clip-tiny`, `clip-tiny-rn`, `clip-mini`, delta packs over them, and CLIP models that have
    one tower of another (origin.json).
    """
    found = _folders("models/*/config.json").items()
    return {name: folder for name, folder in found if not (folder / "origin.json").is_file() or _is_clip(folder)}


def language_models() -> dict[str, Path]:
    """Folders of language models by name: one that lies in a package (origin.json), and adapters over it."""
    return {name: folder for name, folder in _not_whole().items() if not _is_multimodal(folder)}


def multimodal_models() -> dict[str, Path]:
    """Folders of models of pictures and texts: one with another model's tower (origin.json), and adapters over it."""
    found = {name: folder for name, folder in _not_whole().items() if _is_multimodal(folder)}
    return dict(sorted(found.items(), key=lambda one: (one[1] / "adapter_config.json").is_file()))


def _not_whole() -> dict[str, Path]:
    """Folders that need another model or a package beside them."""
    found = _folders("models/*/origin.json") | _folders("models/*/adapter_config.json")
    return {name: folder for name, folder in sorted(found.items()) if not _is_clip(folder)}


def _is_clip(folder: Path) -> bool:
    """Whether a folder is of a model with a tower for pictures and one for captions."""
    config = folder / "config.json"
    return config.is_file() and json.loads(config.read_text(encoding="utf-8")).get("model_type") in _CLIP


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
    return _folders("language/*/harness.yaml")


def questions() -> dict[str, Path]:
    """Folders of question sets by name, each with a questions.yaml."""
    return _folders("questions/*/questions.yaml")


def tasks() -> dict[str, Path]:
    """Task folders by name: the eight that models are trained for, and others that nothing is trained for."""
    return _folders("tasks/*/task.yaml")


def graph() -> Path:
    """The folder of the semantic graph: WordNet nouns with pictures in several styles."""
    for home in _homes():
        if (home / "graph").is_dir():
            return home / "graph"
    raise ModuleNotFoundError("the zoo's graph lies in smelt-zoo-more", name="smelt_zoo_more")


def caption_vectors() -> Path:
    """Vectors of the captions of the graph's nodes; the file says of which embedder."""
    return graph() / "captions.safetensors"


def hub_models() -> list[str]:
    """The names of the models in the zoo's hub: no second sets of experts, no experts in other sizes, no readers.

    What is much like a model that is there would only be chosen in its place.
    """
    return [name for name in models() if not name.endswith(_NOT_IN_HUB) and not name.startswith("clip-small")]


def names_in_more() -> dict[str, list[str]]:
    """What smelt-zoo-more holds by kind (`models`, `language`, `questions`), whether it is installed or not."""
    found: dict[str, list[str]] = json.loads((_HERE / "more.json").read_text(encoding="utf-8"))
    return found


def _homes() -> list[Path]:
    """The folders of this package, and of the second one where it is installed."""
    try:
        import smelt_zoo_more
    except ModuleNotFoundError as error:
        if error.name != "smelt_zoo_more":
            raise
        return [_HERE]
    return [_HERE, Path(str(smelt_zoo_more.__file__)).resolve().parent]


def _folders(pattern: str) -> dict[str, Path]:
    """Folders of both packages by name, those that hold such a file."""
    found = {path.parent.name: path.parent for home in _homes() for path in home.glob(pattern)}
    return dict(sorted(found.items()))
