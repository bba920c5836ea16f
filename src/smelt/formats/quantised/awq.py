"""AWQ: whole numbers of 4 bits, packed along the outputs of a layer, with a zero point for each group.

`qweight` [in, out / 8] has the codes of eight outputs in a word: those of the outputs 0, 2, 4, 6, 1, 3, 5, 7 from the
lowest bits up. `qzeros` [groups, out / 8] likewise, `scales` is [groups, out]. A number is scale * (code - zero point).

Lin et al. 2023, arXiv:2306.00978; the layout is AutoAWQ's `gemm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.formats.quantised.packed_columns import PackedColumns
from smelt.formats.quantised.packed_layers import PackedLayer, configured_group, packed_layers
from smelt.formats.quantised.scheme import schemes
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from smelt.formats.quantised.coding import Coding
    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source

__all__ = ["awq"]

_BITS, _IN_A_WORD = 4, 8
_LAYOUT = "gemm"


def awq(tensors: Mapping[str, TensorInfo], stored: Source, settings: QuantisationSettings) -> Mapping[str, Coding]:
    """Every module with a `qweight` of a model whose config says that AWQ made it."""
    if settings.method != "awq":
        return {}
    layers = list(packed_layers(tensors, settings))
    if not layers:
        return {}
    settings.check_order_of_axes()
    layout = next((str(settings.said[key]).lower() for key in ("version", "format") if settings.said.get(key)), _LAYOUT)
    if layout != _LAYOUT or str(settings.said.get("backend")).lower() == "llm-awq":
        raise settings.unread(f"the config names the AWQ layout {layout!r}; {_LAYOUT} of AutoAWQ is read")
    for key in ("bits", "w_bit"):
        if (bits := settings.whole_number(key)) not in (None, _BITS):
            raise settings.unread(f"the config says {key} = {bits}; AWQ of {_BITS} bits is read")
    return {layer.weight: _coding(layer, settings) for layer in layers}


def _coding(layer: PackedLayer, settings: QuantisationSettings) -> PackedColumns:
    inputs, wide = layer.words
    for name, words in ((layer.codes, wide), (layer.zeros, layer.zero_words)):
        if words * _IN_A_WORD != layer.outputs:
            raise settings.fault(
                f"{name!r} has {words} words of {_IN_A_WORD} codes in a row, but {layer.scales!r} has "
                f"{layer.outputs} outputs"
            )
    if inputs % _IN_A_WORD:
        raise settings.unread(f"{layer.codes!r} has {inputs} inputs, which are no multiple of {_IN_A_WORD}")
    return PackedColumns(
        TensorInfo(settings.dtype, (layer.outputs, inputs)),
        layer.codes,
        layer.zeros,
        layer.scales,
        _BITS,
        layer.group(inputs, configured_group(settings, "group_size", "q_group_size")),
        layer.groups,
        "AWQ",
        interleaved=True,
    )


schemes["awq"] = awq
