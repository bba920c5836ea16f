"""All Gram matrices of a network in memory, one for every layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from smelt.measurement.gram import grams


def gram(network: Any, stream: Any, **words: Any) -> dict[str, Tensor]:
    """By the key of the layer's weight. Layers with a common input hold the same tensor, not a copy."""
    found = grams(network, stream, **words)
    own = dict(found)
    return {key: own[found.tied.get(key, key)] for key in found.keys_in_order}
