"""A model with another vocabulary: its embedding and head appear with the rows of a vocabulary plan.

In: a Source, the names of its vocabulary tensors, the plan, and the other models' Sources for rows that this
one lacks. Out: a Source. A read touches only the rows that it covers, in runs that lie together in the file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import IncompatibleModels
from smelt.formats.source import Source, StoredRange
from smelt.models.vocabulary.plan import MEAN, ZERO

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.vocabulary.plan import Index, VocabularyPlan

__all__ = ["VocabSource"]


class VocabSource(Source):
    """`inner` with the plan's rows in `keys` (axis 0 is the vocabulary); all other tensors as they are.

    `peers` are the other models' own Sources, not wrapped ones. What they hold of a tied name is followed.
    """

    def __init__(
        self, inner: Source, keys: Collection[str], plan: VocabularyPlan, model: str, peers: Mapping[str, Source]
    ):
        self.label, self.files, self.beside = inner.label, inner.files, inner.beside
        self.folder, self.tied = inner.folder, inner.tied
        self.arranged_as(inner)
        self._inner, self._plan, self._keys = inner, plan, inner.tensors.keys() & set(keys)
        self._sources = {**peers, model: inner}
        self._models = tuple(plan.sizes)
        self._own = np.where(plan.forced, -1, plan.gather[model])
        if faults := [fault for key in sorted(self._keys) for fault in self._faults(key)]:
            raise IncompatibleModels(faults)
        self.tensors = {
            name: replace(info, shape=(plan.rows, *info.shape[1:])) if name in self._keys else info
            for name, info in inner.tensors.items()
        }

    def _faults(self, key: str) -> Iterator[str]:
        """What keeps a vocabulary tensor of some model from being read by the plan's rows."""
        rest = self._inner.tensors[key].shape[1:]
        for model in self._models:
            source = self._sources[model]
            info = source.tensors.get(source.tied.get(key, key))
            wanted = (self._plan.sizes[model], *rest)
            if info is None:
                yield f"{key!r} is not in {model}, whose rows may be needed; tie or add it there, or skip it"
            elif info.shape != wanted:
                yield f"{key!r} is {info.shape} in {model}, but its vocabulary and the other models make it {wanted}"

    def read(self, key: str, start: int, out: Tensor) -> None:
        if key not in self._keys or not out.numel():
            self._inner.read(key, start, out)
            return
        width = math.prod(self.tensors[key].shape[1:])
        first, last = start // width, -(-(start + out.numel()) // width)
        own, donor = self._own[first:last], self._plan.donor[first:last]
        self._copy(self._inner, key, own, start, out)
        missing = own < 0
        if not missing.any():
            return
        for number in np.unique(donor[missing]).tolist():
            here = missing & (donor == number)
            if number >= 0:
                rows = np.where(here, self._plan.donor_row[first:last], -1)
                self._copy(self._sources[self._models[number]], key, rows, start, out)
                continue
            for begin, end in _runs(np.flatnonzero(here)):
                low = max(start, (first + begin) * width)
                part = out[low - start : (first + end) * width - start]
                if number == ZERO:
                    part.zero_()
                elif number == MEAN:
                    self._mean(key, first + begin, first + end, low, part)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        return self._inner.read_from(self.tied.get(key, key))

    def _copy(self, source: Source, key: str, rows: Index, start: int, out: Tensor) -> None:
        """Fill `out`, which begins at element `start`, with the rows that are not -1; leave the others alone."""
        name = source.tied.get(key, key)
        width = math.prod(self.tensors[key].shape[1:])
        first, stop = start // width, start + out.numel()
        found = np.flatnonzero(rows >= 0)
        for begin, end in _runs(found, rows[found]):
            low, high = max(start, (first + begin) * width), min(stop, (first + end) * width)
            shift = (int(rows[begin]) - first - begin) * width
            source.read(name, low + shift, out[low - start : high - start])

    def _mean(self, key: str, begin: int, end: int, start: int, out: Tensor) -> None:
        """Fill `out` with the mean, over the models that have them, of the output rows from `begin` to `end`."""
        import torch

        width = math.prod(self.tensors[key].shape[1:])
        dtype = torch.promote_types(out.dtype, torch.float32)
        total, part = (torch.zeros(out.numel(), dtype=dtype, device=out.device) for _ in range(2))
        counts = np.zeros(end - begin, dtype=np.int64)
        for model in self._models:
            rows = self._plan.gather[model][begin:end]
            if (rows >= 0).any():
                self._copy(self._sources[model], key, rows, start, part.zero_())
                total += part
                counts += rows >= 0
        skipped = start - begin * width
        total /= torch.from_numpy(counts).to(out.device).repeat_interleave(width)[skipped : skipped + out.numel()]
        out.copy_(total)

    def close(self) -> None:
        self._inner.close()


def _runs(places: Index, rows: Index | None = None) -> Iterator[tuple[int, int]]:
    """Stretches [begin, end) of places that follow one another, whose rows do so too."""
    if not len(places):
        return
    breaks = np.diff(places) != 1
    if rows is not None:
        breaks |= np.diff(rows) != 1
    edges = np.flatnonzero(breaks) + 1
    for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(places)], strict=True):
        yield int(places[low]), int(places[high - 1]) + 1
