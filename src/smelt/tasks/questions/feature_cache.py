"""What vision towers see, kept: models that share a tower see the same, so a picture is looked at once for all.

Kept is what stands before the projector, under the tower and the bytes of the picture as the model takes it. Where a
picture is named (set, sample, seed of its perturbation) it is not even read again. All is kept in host memory, whatever
the model's device, and moved there when it is used. The memory is bounded. Models are asked the same pictures in the
same order, one model after the other; so what was kept first stays, and once all is full nothing new comes in: taking
out the oldest would take out just what is asked for next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.image_text.model import ImageText

__all__ = ["FeatureCache"]

_MEMORY = 1 << 30
_NAMES = 1 << 20


class FeatureCache:
    """Features of pictures, by tower. Used by one thread at a time."""

    def __init__(self, memory: int = _MEMORY):
        self._memory, self._bytes = memory, 0
        self._kept: dict[tuple[str, str], Tensor] = {}
        self._names: dict[tuple[Hashable, Hashable], str] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, model: ImageText, pictures: Sequence[tuple[Hashable, Callable[[], NDArray[np.uint8]]]]) -> Tensor:
        """Features [n, places, width] of pictures, each with a name and how it is read where it is not known."""
        import torch

        found = [self._known(model, name) for name, _ in pictures]
        unread = [number for number, one in enumerate(found) if one is None]
        known = [one for one in found if one is not None]
        if not unread:
            return torch.stack(known).to(model.device)
        shaped = model.preprocess.shape([pictures[number][1]() for number in unread])
        fresh = model.features(shaped)
        for number, picture, one in zip(unread, shaped, fresh, strict=True):
            content = hashlib.blake2b(picture.tobytes(), digest_size=16).hexdigest()
            self._keep((model.preprocess, pictures[number][0]), (model.tower_hash, content), one)
        if not known:
            return fresh
        whole = torch.empty((len(found), *fresh.shape[1:]), dtype=fresh.dtype, device=fresh.device)
        whole[unread] = fresh
        whole[[number for number, one in enumerate(found) if one is not None]] = torch.stack(known).to(fresh.device)
        return whole

    def _known(self, model: ImageText, name: Hashable) -> Tensor | None:
        return self._kept.get((model.tower_hash, self._names.get((model.preprocess, name), "")))

    def _keep(self, name: tuple[Hashable, Hashable], key: tuple[str, str], features: Tensor) -> None:
        if key not in self._kept:
            if self._bytes + features.nbytes > self._memory:
                return
            self._kept[key] = features.to("cpu", copy=True)  # a row of a batch would hold on to all of it
            self._bytes += features.nbytes
        if len(self._names) >= _NAMES:
            self._names.clear()
        self._names[name] = key[1]
