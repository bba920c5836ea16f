"""Smelt's zoo: small real models, real tasks and a semantic graph, so that everything runs without a network.

`models()` and `tasks()` give the folders by name; `smelt` resolves `zoo:NAME` through them. `graph()` is the semantic
graph that models of a hub are tested on, `hub_models()` which of the models are in the zoo's own hub.
`language_models()` and `language()` are the language models and their tasks.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["graph", "hub_models", "language", "language_models", "models", "tasks"]

_HERE = Path(__file__).resolve().parent


def models() -> dict[str, Path]:
    """Model folders by name: `clip-tiny`, `clip-tiny-rn`, `clip-mini`, and delta packs over them."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("models/*/config.json"))}


def language_models() -> dict[str, Path]:
    """Folders of language models by name: one that lies in a package (origin.json), and adapters over it."""
    found = [*_HERE.glob("models/*/origin.json"), *_HERE.glob("models/*/adapter_config.json")]
    return {path.parent.name: path.parent for path in sorted(found)}


def language() -> dict[str, Path]:
    """Folders of language tasks by name, each with a harness.yaml of the lm-evaluation-harness."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("language/*/harness.yaml"))}


def tasks() -> dict[str, Path]:
    """Task folders by name: the eight that models are trained for, and others that nothing is trained for."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("tasks/*/task.yaml"))}


def graph() -> Path:
    """The folder of the semantic graph: WordNet nouns with pictures in several styles."""
    return _HERE / "graph"


def hub_models() -> list[str]:
    """The names of the models in the zoo's hub: all but the second set of experts, which are much like the first."""
    return [name for name in models() if not name.endswith("-b")]
