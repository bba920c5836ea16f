"""How the layers that a PEFT adapter changes lie in the base: as [out, in], or as [in, out] like GPT-2's Conv1D.

A square matrix does not show it by its shape. PEFT knows from the layer's class, and its `fan_in_fan_out` only
remembers the last layer it met. So layers of the same name that are not square decide, then what is known of the base;
where that is nothing, the config's word, unless other layers prove it wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from smelt.formats.architecture.layout import Orientation
from smelt.formats.lora.changes import Product
from smelt.formats.source import TensorInfo

__all__ = ["ScaledProduct", "settle_orientation"]

ScaledProduct: TypeAlias = tuple[Product, float, str | None]
"""With its scaling, and the name of DoRA's magnitudes."""


def settle_orientation(
    found: Mapping[str, list[ScaledProduct]], base: Mapping[str, TensorInfo], orientation: Orientation, told: bool
) -> list[str]:
    """Turn the square ones among the products, in place; gives what is contradictory. `told`: what the config says."""
    votes: dict[str, set[bool]] = {}
    square: list[tuple[str, int]] = []
    for key, products in found.items():
        shape = base[key].shape
        for number, (product, *_) in enumerate(products):
            if len(shape) != 2 or "lora_embedding_" in product.down:
                continue
            if shape[0] == shape[1]:
                square.append((key, number))
            else:
                votes.setdefault(key.split(".")[-2], set()).add(product.swapped)
    trusted = all(seen == {told} for seen in votes.values())
    faults = []
    for key, number in square:
        seen = votes.get(key.split(".")[-2], set())
        if len(seen) != 1 and orientation.informed:
            seen = {orientation.of(key).transposed}
        if len(seen) != 1 and not trusted:
            faults.append(
                f"{key!r} is square and other layers contradict fan_in_fan_out={told}; correct it in "
                "adapter_config.json (true for GPT-2's Conv1D layers)"
            )
        product, scaling, magnitude = found[key][number]
        swapped = next(iter(seen)) if len(seen) == 1 else told
        found[key][number] = replace(product, swapped=swapped), scaling, magnitude
    return faults
