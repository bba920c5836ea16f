"""What bitsandbytes says of a tensor of 4-bit codes: JSON as bytes, under a name that ends in the kind of codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import parse_json
from smelt.formats.quantised.settings import offered_format

if TYPE_CHECKING:
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source, TensorInfo

__all__ = ["Nested", "QuantState", "read_state"]

_KINDS = ("nf4", "fp4")
_BLOCKSIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Those that the library knows."""
_LONGEST = 1 << 16
"""Bytes of JSON; a real state has about 200."""
_MOST, _MOST_AXES = 1 << 60, 64
"""Numbers in a tensor, and axes."""
_LARGEST = 1e30
"""No offset of scales comes near it; a NaN is not below it."""


@dataclass(frozen=True)
class Nested:
    """Of scales that are quantised themselves."""

    blocksize: int
    offset: float


@dataclass(frozen=True)
class QuantState:
    """Of one tensor."""

    kind: Literal["nf4", "fp4"]
    shape: tuple[int, ...]
    dtype: str
    """What it was, and becomes again."""
    blocksize: int
    nested: Nested | None

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def read_state(key: str, info: TensorInfo, stored: Source, settings: QuantisationSettings) -> QuantState:
    """A state, or CorruptFile for what no release of the library writes."""
    if info.dtype != "U8" or info.nbytes > _LONGEST:
        raise settings.fault(f"{key!r} is {info.dtype} {info.shape}; it should be JSON as U8")
    raw = np.empty(info.nbytes, np.uint8)
    stored.read_bytes(key, 0, raw.data)
    said = parse_json(raw.tobytes(), f"{settings.label}: {key!r}")
    if not isinstance(said, dict):
        raise settings.fault(f"{key!r} is JSON, but no table")
    kind = key.rpartition("__")[2]
    if kind not in _KINDS or said.get("quant_type", kind) != kind:
        raise settings.unread(f"{key!r} holds codes of type {shortened(repr(said.get('quant_type', kind)))}")
    read = _Fields(key, said, settings)
    nested = Nested(read.blocksize("nested_blocksize"), read.number("nested_offset")) if _is_nested(said) else None
    known = cast("Literal['nf4', 'fp4']", kind)
    return QuantState(known, read.shape(), read.dtype(), read.blocksize("blocksize"), nested)


def _is_nested(said: Mapping[str, Any]) -> bool:
    return any(key.startswith("nested_") for key in said)


@dataclass(frozen=True)
class _Fields:
    """The fields of a state, each of which may be anything."""

    key: str
    said: Mapping[str, Any]
    settings: QuantisationSettings

    def shape(self) -> tuple[int, ...]:
        found: Any = self.said.get("shape")
        sizes = found if isinstance(found, list) and 0 < len(found) <= _MOST_AXES else []
        if not sizes or not all(type(size) is int and size > 0 for size in sizes) or math.prod(sizes) > _MOST:
            raise self._fault("shape", "a list of sizes")
        return tuple(sizes)

    def dtype(self) -> str:
        found = offered_format(self.said.get("dtype"))
        if found is None:
            raise self._fault("dtype", "float32, float16 or bfloat16")
        return found

    def blocksize(self, name: str) -> int:
        found: Any = self.said.get(name)
        if type(found) is not int or found not in _BLOCKSIZES:
            raise self._fault(name, f"one of {', '.join(map(str, _BLOCKSIZES))}")
        return found

    def number(self, name: str) -> float:
        found: Any = self.said.get(name)
        if type(found) not in (int, float) or not abs(found) < _LARGEST:
            raise self._fault(name, "a number")
        return float(found)

    def _fault(self, name: str, wanted: str) -> CorruptFile:
        given = shortened(repr(self.said[name])) if name in self.said else "not there"
        return self.settings.fault(f"{name} in {self.key!r} is {given}; it should be {wanted}")
