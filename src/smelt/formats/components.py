"""Models of several components: each lies in a sub-folder of its own, with its weights and its config.

A Source of such a model calls a tensor by its component's prefix and its name there (`unet.conv_in.weight`,
`2_Dense.linear.weight`), and says in `components` where each prefix lives. Nothing else knows of sub-folders: the sink
writes a component's tensors, without the prefix, into its folder under its stem (`engine/sink/sink.py`), and what lies
beside them is carried (`folder_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.formats.quantised.scheme import dequantised
from smelt.formats.source import Component, Source, StoredRange

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ComponentsSource"]


class ComponentsSource(Source):
    """The Sources of all components as one. Closing it closes them."""

    def __init__(self, label: str, folder: Path, parts: Mapping[str, Source], components: Mapping[str, Component]):
        """`parts` and `components` are both by prefix."""
        self.label, self.folder, self.components = label, folder, components
        parts = {prefix: dequantised(part) for prefix, part in parts.items()}
        self._places = {prefix + name: (part, name) for prefix, part in parts.items() for name in part.tensors}
        self.tensors = {name: part.tensors[own] for name, (part, own) in self._places.items()}
        self.files = {path: seen for part in parts.values() for path, seen in part.files.items()}
        self.notes = tuple(note for part in parts.values() for note in part.notes)
        self.tied = {prefix + name: prefix + twin for prefix, part in parts.items() for name, twin in part.tied.items()}
        self.codes = {prefix + name: codes for prefix, part in parts.items() for name, codes in part.codes.items()}
        self._parts = tuple(parts.values())

    def read(self, key: str, start: int, out: Tensor) -> None:
        part, name = self._places[key]
        part.read(name, start, out)

    def has_bytes(self, key: str) -> bool:
        part, name = self._places[key]
        return part.has_bytes(name)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        part, name = self._places[key]
        part.read_bytes(name, start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        part, name = self._places[key]
        return part.read_from(name)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        part, name = self._places[key]
        return part.stored_at(name)

    def close(self) -> None:
        for part in self._parts:
            part.close()
