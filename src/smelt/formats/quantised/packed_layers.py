"""Layers of GPTQ and AWQ: `qweight`, `qzeros` and `scales` under the name of a module, and what must hold of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.formats.quantised.scales import check_floats

if TYPE_CHECKING:
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import TensorInfo

__all__ = ["WORD", "PackedLayer", "configured_group", "packed_layers"]

_CODES, _ZEROS, _SCALES = "qweight", "qzeros", "scales"
WORD = 32
"""Bits."""


@dataclass(frozen=True)
class PackedLayer:
    """The stored tensors of one module, of the right types and with as many groups and outputs each as the others."""

    module: str
    """With a dot at its end, or empty."""
    words: tuple[int, int]
    """The shape of the codes."""
    zero_words: int
    """In a row of zero points."""
    groups: int
    outputs: int
    settings: QuantisationSettings

    @property
    def codes(self) -> str:
        return self.module + _CODES

    @property
    def zeros(self) -> str:
        return self.module + _ZEROS

    @property
    def scales(self) -> str:
        return self.module + _SCALES

    @property
    def weight(self) -> str:
        """What it is offered as."""
        return f"{self.module}weight"

    def group(self, inputs: int, configured: int | None) -> int:
        """How many inputs share a scale; the last group may have fewer where the config says how many."""
        if self.groups == 1:
            return inputs
        if configured is not None and -(-inputs // configured) == self.groups:
            return configured
        if inputs % self.groups:
            said = f", nor into groups of {configured} as the config says" if configured is not None else ""
            raise self.settings.fault(
                f"{self.codes!r} has {inputs} inputs, which do not divide into the {self.groups} groups of "
                f"{self.scales!r}{said}"
            )
        return inputs // self.groups


def packed_layers(tensors: Mapping[str, TensorInfo], settings: QuantisationSettings) -> Iterator[PackedLayer]:
    """Every module with a `qweight`; CorruptFile for one whose tensors do not belong together."""
    for key in tensors:
        module = key.removesuffix(_CODES)
        if module != key and (not module or module.endswith(".")):
            yield _layer(module, tensors, settings)


def _layer(module: str, tensors: Mapping[str, TensorInfo], settings: QuantisationSettings) -> PackedLayer:
    codes, zeros, scales = (module + name for name in (_CODES, _ZEROS, _SCALES))
    for name in (zeros, scales):
        if name not in tensors:
            raise settings.fault(f"{codes!r} has no {name!r} beside it; the file is incomplete")
    for name in (codes, zeros):
        if tensors[name].dtype != "I32":
            raise settings.unread(f"{name!r} is {tensors[name].dtype}; codes in words of 32 bits (I32) are read")
    check_floats(scales, tensors[scales], settings)
    for name in (codes, zeros, scales):
        if len(tensors[name].shape) != 2 or not tensors[name].count:
            raise settings.fault(f"{name!r} is {tensors[name].shape}; it should be a matrix")
    (groups, outputs), (rows, words) = tensors[scales].shape, tensors[zeros].shape
    if rows != groups:
        raise settings.fault(f"{zeros!r} has {rows} groups but {scales!r} has {groups}")
    high, wide = tensors[codes].shape
    return PackedLayer(module, (high, wide), words, groups, outputs, settings)


def configured_group(settings: QuantisationSettings, *names: str) -> int | None:
    """The size of groups that a config names; None where it names none, or -1 for whole columns."""
    found = next((name for name in names if name in settings.said), None)
    if found is None or settings.said[found] in (-1, None):
        return None
    return settings.whole_number(found)
