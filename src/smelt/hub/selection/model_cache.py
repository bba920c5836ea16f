"""Models in memory: those that were asked last stay, as far as they fit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import CorruptFile

if TYPE_CHECKING:
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore
    from smelt.models.families.family import Classifier

__all__ = ["ModelCache", "model_folder"]

_MOST = 8
_NUMBERS = 1 << 30
"""Numbers (of four bytes) that all of them may have; the one that is asked for may be larger."""


def model_folder(store: HubStore, row: ModelRow) -> Path:
    """Where a model's files lie: in the hub, or in the zoo."""
    if row.copied:
        return store.model_folder(row.name)
    from smelt.models.zoo.catalogue import zoo_folder

    return zoo_folder(row.ref.removeprefix("zoo:"))


class ModelCache:
    """Classifiers by what the hub knows them by: their hash, and how they prepare pictures."""

    def __init__(self, store: HubStore, *, most: int = _MOST, numbers: int = _NUMBERS):
        self._store, self._most, self._numbers = store, most, numbers
        self._kept: OrderedDict[tuple[str, str], tuple[Classifier, int]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, row: ModelRow) -> Classifier:
        """The model, loaded if it is not there; refused if its files are no longer those that were added."""
        key = row.hash, row.preprocess
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            from smelt.hub.labels.label import identity_of
            from smelt.hub.models.check import preprocess_words
            from smelt.models.families.load import load

            model: Classifier = load(str(model_folder(self._store, row)), "classifier")
            if (identity_of(model), preprocess_words(model.preprocess)) != key:
                raise CorruptFile(
                    f"{row.name}: {row.ref} is no longer the model that was added; remove it and add it again"
                )
            self._kept[key] = model, row.parameters
            while len(self._kept) > 1 and not self._fits():
                self._kept.popitem(last=False)
            return model

    def _fits(self) -> bool:
        return len(self._kept) <= self._most and sum(size for _, size in self._kept.values()) <= self._numbers

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
