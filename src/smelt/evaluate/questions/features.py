"""What vision towers see, kept: models that share a tower see the same, so a picture is looked at once for all.

Kept is what stands before the projector, under the tower and the bytes of the picture as the model takes it. Where a
picture is named (set, sample, seed of its perturbation) it is not even read again. The memory is bounded; what was used
longest ago goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.pool.families.image_text_model import ImageText

__all__ = ["Features"]

_MEMORY = 256 << 20
_NAMES = 1 << 20


class Features:
    """Features of pictures, by tower. Used by one thread at a time."""

    def __init__(self, memory: int = _MEMORY):
        self._memory, self._bytes = memory, 0
        self._kept: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
        self._names: dict[tuple[Hashable, Hashable], str] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, model: ImageText, pictures: Sequence[tuple[Hashable, Callable[[], NDArray[np.uint8]]]]) -> Tensor:
        """Features [n, places, width] of pictures, each with a name and how it is read where it is not known."""
        import torch

        found = [self._known(model, name) for name, _ in pictures]
        unread = [number for number, one in enumerate(found) if one is None]
        if unread:
            shaped = model.preprocess.shape([pictures[number][1]() for number in unread])
            for number, picture, one in zip(unread, shaped, model.features(shaped), strict=True):
                found[number] = one
                content = hashlib.blake2b(picture.tobytes(), digest_size=16).hexdigest()
                self._keep((model.preprocess, pictures[number][0]), (model.tower_hash, content), one)
        return torch.stack([one for one in found if one is not None])

    def _known(self, model: ImageText, name: Hashable) -> Tensor | None:
        key = (model.tower_hash, self._names.get((model.preprocess, name), ""))
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _keep(self, name: tuple[Hashable, Hashable], key: tuple[str, str], features: Tensor) -> None:
        if len(self._names) >= _NAMES:
            self._names.clear()
        self._names[name] = key[1]
        if key in self._kept:
            return
        self._kept[key] = features.clone()  # a row of a batch would hold on to all of it
        self._bytes += features.nbytes
        while self._bytes > self._memory:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
