"""GPTQ: whole numbers of 2, 3, 4 or 8 bits, packed along the inputs of a layer, with a zero point for each group.

`qweight` [in * bits / 32, out] has codes of consecutive inputs from the lowest bits of a word up; those of 3 bits go
over the ends of words. `qzeros` [groups, out * bits / 32] is packed likewise along outputs; the format `gptq` stores
zero points minus one, `gptq_v2` as they are. `scales` is [groups, out]. `g_idx` [in] has the group of each input, where
these were quantised in an order of their own (`desc_act`). A number is scale * (code - zero point).

Frantar et al. 2022, arXiv:2210.17323; the layout is AutoGPTQ's and GPTQModel's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from smelt.formats.quantised.packed_columns import PackedColumns
from smelt.formats.quantised.packed_layers import WORD, PackedLayer, configured_group, packed_layers
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["gptq"]

_BITS = (2, 3, 4, 8)
_ADDED = {"gptq": 1, "gptq_v2": 0}
"""To stored zero points, by format."""
_FORMAT = ("checkpoint_format", "format")
"""Where a config names it; the older name first."""


def gptq(tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings) -> Mapping[str, Coding]:
    """Every module with a `qweight` of a model whose config says that GPTQ made it."""
    if settings.method != "gptq":
        return {}
    layers = list(packed_layers(tensors, settings))
    if not layers:
        return {}
    settings.check_order_of_axes()
    kind = next((str(settings.said[key]).lower() for key in _FORMAT if settings.said.get(key)), "gptq")
    if kind not in _ADDED or settings.said.get("is_marlin_format"):
        raise settings.unread(f"the config names the GPTQ format {kind!r}; {' and '.join(_ADDED)} are read")
    return {layer.weight: _coding(layer, _ADDED[kind], tensors, stored, settings) for layer in layers}


def _coding(
    layer: PackedLayer, added: int, tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings
) -> PackedColumns:
    bits = _bits(layer, settings)
    high, wide = layer.words
    if wide != layer.outputs:
        raise settings.fault(f"{layer.codes!r} has {wide} outputs but {layer.scales!r} has {layer.outputs}")
    if high * WORD % bits:
        raise settings.fault(
            f"{layer.codes!r} has {high} words in a column, which is no whole number of {bits}-bit codes"
        )
    inputs, order = high * WORD // bits, f"{layer.module}g_idx"
    group = layer.group(inputs, configured_group(settings, "group_size"))
    return PackedColumns(
        TensorInfo(settings.dtype, (layer.outputs, inputs)),
        layer.codes,
        layer.zeros,
        layer.scales,
        bits,
        group,
        layer.groups,
        "GPTQ",
        added,
        group_of=_group_of(order, inputs, group, layer.groups, tensors, stored, settings) if order in tensors else None,
        unused=(order,) if order in tensors else (),
    )


def _bits(layer: PackedLayer, settings: QuantisationSettings) -> int:
    """As the zero points say; layers may differ from what the config says of most."""
    fitting = [bits for bits in _BITS if -(-layer.outputs * bits // WORD) == layer.zero_words]
    if not fitting:
        bits = layer.zero_words * WORD / layer.outputs
        raise settings.unread(
            f"{layer.zeros!r} has {layer.zero_words} words for {layer.outputs} outputs, {bits:g} bits for each; "
            f"{', '.join(map(str, _BITS))} bits are read"
        )
    configured = settings.whole_number("bits")
    return configured if configured in fitting else fitting[0]


def _group_of(
    name: str,
    inputs: int,
    group: int,
    groups: int,
    tensors: Mapping[str, TensorInfo],
    stored: Source,
    settings: QuantisationSettings,
) -> NDArray[np.int32] | None:
    """The group of each input; None where they lie as they would without."""
    if tensors[name] != TensorInfo("I32", (inputs,)):
        raise settings.fault(f"{name!r} is {tensors[name].dtype} {tensors[name].shape}, not I32 ({inputs},)")
    found = np.empty(inputs, np.int32)
    stored.read_bytes(name, 0, found.view(np.uint8).data)
    outside = found[(found < 0) | (found >= groups)]
    if len(outside):
        raise settings.fault(f"{name!r} names the group {outside[0]} of {groups}; the file is damaged")
    return None if np.array_equal(found, np.arange(inputs) // group) else found


schemes["gptq"] = gptq
