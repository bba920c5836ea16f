"""A quantised model as a Source: the same tensors under the names, and in the format, that it had before.

In: a Source whose tensors are codes and scales, and how each tensor is worked out of them. Out: numbers in the format
that the model computes in (config.json's `dtype`), as its library gives them when it dequantises.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from smelt.formats import dtype as dtypes
from smelt.formats.quantised.workspace import Workspace
from smelt.formats.source import Source, StoredCodes, StoredRange

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.formats.quantised.coding import Coding

__all__ = ["QuantisedSource"]


class QuantisedSource(Source):
    """`stored` with the tensors of `codings` in place of what they are worked out of, and without those `left_out`.

    Closing it closes `stored`.
    """

    def __init__(self, stored: Source, codings: Mapping[str, Coding], left_out: Collection[str], note: str):
        self._stored, self._codings = stored, codings
        self.label, self.files, self.folder, self.beside = stored.label, stored.files, stored.folder, stored.beside
        self.arranged_as(stored)
        used = {part for coding in codings.values() for part in coding.parts}
        plain = {key: info for key, info in stored.tensors.items() if key not in used and key not in left_out}
        self.tensors = {**plain, **{key: coding.info for key, coding in codings.items()}}
        self.tied, self.notes = stored.tied, (*stored.notes, note)
        self.codes = {
            key: StoredCodes(coding.how, sum(stored.tensors[part].nbytes for part in coding.parts))
            for key, coding in codings.items()
        }
        self._work = Workspace()

    def read(self, key: str, start: int, out: Tensor) -> None:
        if key not in self._codings:
            self._stored.read(key, start, out)
            return
        import torch

        dtype = self.tensors[key].dtype
        offered = dtypes.torch_dtype(dtype)
        direct = out.dtype == offered and out.is_contiguous() and out.device.type == "cpu"
        size = out.numel() * dtypes.item_size(dtype)
        raw = out.view(torch.uint8).numpy() if direct else self._work.buffer("read", size)
        self._codings[key].fill(self._stored, start, raw, self._work)
        if not direct:
            out.copy_(torch.from_numpy(raw).view(offered))

    def has_bytes(self, key: str) -> bool:
        return key in self._codings or self._stored.has_bytes(key)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        if key in self._codings:
            self._codings[key].fill(self._stored, start, np.frombuffer(out, np.uint8), self._work)
        else:
            self._stored.read_bytes(key, start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        for part in self._codings[key].parts if key in self._codings else (key,):
            yield from self._stored.read_from(part)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        return None if key in self._codings else self._stored.stored_at(key)

    def on_device(self, key: str) -> Tensor | None:
        return None if key in self._codings else self._stored.on_device(key)

    def close(self) -> None:
        self._stored.close()
