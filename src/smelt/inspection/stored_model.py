"""A model as its headers say it is, before anything is made of that for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.inspection.model_facts import AdapterFacts, PackFacts, PartFacts, QuantisedFacts, TensorFacts

__all__ = ["StoredModel"]


@dataclass(frozen=True)
class StoredModel:
    """What headers say."""

    format: str
    tensors: tuple[TensorFacts, ...]
    files: tuple[Path, ...] = ()
    path: Path | None = None
    folder: Path | None = None
    """With config, tokenizer and card, if there is one."""
    card: Path | None = None
    """The folder of the card, where that is another one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    quantised: QuantisedFacts | None = None
    tokenizer: str | None = None
    chat_template: bool = False
    licence: str | None = None
    adapter: AdapterFacts | None = None
    pack: PackFacts | None = None
    experts: tuple[str, ...] = ()
    parts: Mapping[str, PartFacts] = field(default_factory=dict)
    """The parts of a diffusion model, each with what is known of it."""
    notes: tuple[str, ...] = ()
