"""Smelt's zoo: small real models and eight real tasks, so that everything runs without a network.

`models()` and `tasks()` give the folders by name; `smelt` resolves `zoo:NAME` through them.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["models", "tasks"]

_HERE = Path(__file__).resolve().parent


def models() -> dict[str, Path]:
    """Model folders by name: `clip-tiny`, `clip-tiny-rn`, and their experts as delta packs over them."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("models/*/config.json"))}


def tasks() -> dict[str, Path]:
    """Task folders by name."""
    return {path.parent.name: path.parent for path in sorted(_HERE.glob("tasks/*/task.yaml"))}
