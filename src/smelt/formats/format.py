"""What a format is: something that knows its files when it sees them, and opens them as a Source.

A format is registered by its name (`formats["mine"] = ...`), Smelt's own in `builtin.py`, others by plug-ins: an entry
point of the group `smelt.formats` names a module that does so. The first format that recognises a path opens it;
Smelt's own are asked before all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from smelt.formats.source import Source
from smelt.registry import Registry

__all__ = ["Format", "OpenBase", "OpenOptions", "formats"]

OpenBase: TypeAlias = Callable[[str, Path], Source]
"""Opens the model that a reference names; a path may be relative to the folder."""


@dataclass(frozen=True)
class OpenOptions:
    """What a format may do while it opens a path."""

    open_base: OpenBase
    """For a format that stores a change of another model."""
    allow_pickle: bool = False


class Format(Protocol):
    """One way to store a model."""

    def recognises(self, path: Path) -> bool:
        """Whether this folder or file is one of the format's, by names alone; the path is there."""

    def open(self, path: Path, options: OpenOptions) -> Source:
        """The model at a recognised path; CorruptFile where it is damaged."""


formats: Registry[Format] = Registry(
    "smelt.formats",
    own=lambda: dict.fromkeys(("mixture", "delta_pack", "safetensors", "gguf", "pickle"), "smelt.formats.builtin"),
    home=lambda found: type(found).__module__,
)
"""Every registered format by name."""
