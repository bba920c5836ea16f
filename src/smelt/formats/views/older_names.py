"""Models under the names that they have in memory in transformers 5, where their files have had others.

Names differ in their beginnings alone. A file of either form becomes a view under the later one, so that files of both
merge, and so do adapters trained over them. The library loads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.formats.source import Source
from smelt.formats.views.renamed import renamed

__all__ = ["OlderNames"]


@dataclass(frozen=True)
class OlderNames:
    """One family of layouts."""

    model_types: tuple[str, ...]
    older: Mapping[str, str]
    """Beginnings of names in files -> in memory. The first that fits counts."""
    parts: tuple[str, ...] = ()
    """How the names of its parts begin in memory, the vision tower first: without a config, a model is known by having
    all of them. None where a config has to tell."""
    inner: str = ""
    """A beginning with one level of names too many, as towers had before transformers 5; its last level is left out."""
    frozen: str | None = None

    suffixes: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Without a config it may be the right one where the vision tower, the first part, has one of its names."""
        tower = self.parts[:1]
        return (*tower, *(older for older, now in self.older.items() if now in tower))

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By the config; tensors that come without one by the names of all parts."""
        if config is not None or not self.parts:
            return (config or {}).get("model_type") in self.model_types
        common = [self.common(name) for name in names]
        return all(any(name.startswith(part) for name in common) for part in self.parts)

    def common(self, name: str) -> str:
        """A stored name, of whatever layout, as the model in memory has it."""
        if not name.startswith(self.parts):
            for older, now in self.older.items():
                if name.startswith(older):
                    name = now + name.removeprefix(older)
                    break
        if self.inner and name.startswith(self.inner):
            name = f"{self.inner.rstrip('.').rpartition('.')[0]}.{name.removeprefix(self.inner)}"
        return name

    def of(self, source: Source) -> Source:
        """The source itself, or a view of it where its names are others."""
        if all(self.common(name) == name for name in source.tensors):
            return source
        return renamed(source, self.common)
