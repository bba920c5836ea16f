"""Writing a delta pack: compare with the base, lay out the file, write it tensor by tensor, measure what was lost.

In: two Sources. Out: delta.json and delta.safetensors in a folder. A run of rows is held at a time (for a low-rank
pack one whole matrix), never a model. The error is measured on the pack as it is read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Literal, TypeAlias

import torch
from torch import Tensor

from smelt.errors import IncompatibleModels, NumericalError
from smelt.files.reading import natural
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import small_files
from smelt.formats.packs.codes import encode, factorise, quantise
from smelt.formats.packs.note import (
    WEIGHTS,
    BaseNote,
    DeltaNote,
    ErrorNote,
    TensorNote,
    as_matrix,
    layout,
)
from smelt.formats.packs.small_files import shared_with_base
from smelt.formats.packs.source import DeltaSource, base_hashes
from smelt.formats.safetensors import encode_header
from smelt.formats.source import Source, TensorInfo
from smelt.system.progress import Progress

__all__ = ["Packer"]

_CHUNK = 1 << 18
"""Elements held at once: few enough for the caches, since codes are tried ten times over."""
_SMALL = 256
"""Tensors with fewer elements are stored exactly: there is nothing to save."""
Stored: TypeAlias = Literal["base", "codes", "low_rank", "exact"]


class Packer:
    """One model against one base, with either `bits` or `rank`."""

    def __init__(self, model: Source, base: Source, base_ref: str, *, bits: int | None, rank: int | None):
        self._model, self._base, self._bits, self._rank = model, base, bits, rank
        self._ref = base_ref
        self._refuse_misfits()

    @property
    def bytes_before(self) -> int:
        return sum(info.nbytes for info in self._model.tensors.values())

    def write(self, folder: Path, progress: Progress) -> DeltaNote:
        """Write the pack's two files and return the note, with the measured error."""
        progress.begin("comparing", self.bytes_before)
        note = DeltaNote.model_validate(
            {
                "base": BaseNote(ref=self._ref, sha256=base_hashes(self._base)),
                "bits": self._bits,
                "rank": self._rank,
                "tensors": {
                    key: TensorNote(stored=self._how(key, progress), dtype=self._model.tensors[key].dtype)
                    for key in sorted(self._model.tensors, key=natural)
                },
                "absent": sorted(self._base.tensors.keys() - self._model.tensors.keys(), key=natural),
                "from_base": shared_with_base(_small_files(self._model), _small_files(self._base)),
            }
        )
        progress.begin("packing", self.bytes_before)
        head, _ = encode_header(
            layout(note, {k: i.shape for k, i in self._model.tensors.items()}),
            {"format": "pt", "smelt": "delta pack; needs its base, see delta.json"},
        )
        with open(folder / WEIGHTS, "wb") as file:
            file.write(head)
            for key, tensor in note.tensors.items():
                self._store(key, tensor.stored, file)
                progress.advance(self._model.tensors[key].nbytes)
        note.save(folder)
        progress.begin("measuring", self.bytes_before)
        note = note.model_copy(update={"error": self._measure(folder, progress)})
        note.save(folder)
        return note

    def _refuse_misfits(self) -> None:
        faults = []
        for key, info in self._model.tensors.items():
            theirs = self._base.tensors.get(key)
            if theirs is None:
                faults.append(f"{key!r} is not in the base; pack against the base that the model was tuned from")
            elif theirs.shape != info.shape:
                faults.append(f"{key!r} is {info.shape} in the model but {theirs.shape} in the base")
        if faults:
            raise IncompatibleModels(faults, cannot="be packed as base and change")

    def _how(self, key: str, progress: Progress) -> Stored:
        info, theirs = self._model.tensors[key], self._base.tensors[key]
        unchanged = self._unchanged(key)
        progress.advance(info.nbytes)
        if unchanged:
            return "base"
        numbers = {info.dtype, theirs.dtype} <= dtypes.WRITABLE
        if not numbers or len(info.shape) < 2 or info.count < _SMALL:
            return "exact"
        kind: Stored = "codes" if self._bits is not None else "low_rank"
        return kind if self._size(key, kind) < info.nbytes else "exact"

    def _size(self, key: str, kind: Stored) -> int:
        alone = DeltaNote.model_validate(
            {
                "base": BaseNote(ref="", sha256={}),
                "bits": self._bits,
                "rank": self._rank,
                "tensors": {key: TensorNote(stored=kind, dtype=self._model.tensors[key].dtype)},
            }
        )
        return sum(info.nbytes for info in layout(alone, {key: self._model.tensors[key].shape}).values())

    def _unchanged(self, key: str) -> bool:
        """Equal in the coarser of the two dtypes: a tensor that was not tuned, only stored in another format."""
        info, theirs = self._model.tensors[key], self._base.tensors[key]
        if info.dtype != theirs.dtype and not {info.dtype, theirs.dtype} <= dtypes.WRITABLE:
            return False
        coarser = info.dtype if info.nbytes <= theirs.nbytes else theirs.dtype
        dtype = dtypes.torch_dtype(coarser)
        for start, stop in _runs(info.count, _CHUNK):
            ours, its = torch.empty(2, stop - start, dtype=dtype).unbind()
            self._model.read(key, start, ours)
            self._base.read(key, start, its)
            if not torch.equal(ours.view(torch.uint8), its.view(torch.uint8)):
                return False
        return True

    def _store(self, key: str, stored: Stored, file: IO[bytes]) -> None:
        info = self._model.tensors[key]
        if stored == "exact":
            for start, stop in _runs(info.count, _CHUNK):
                values = torch.empty(stop - start, dtype=dtypes.torch_dtype(info.dtype))
                self._model.read(key, start, values)
                self._refuse_nonsense(key, start, values)
                _put(file, values)
        elif stored == "codes":
            self._store_codes(key, info, file)
        elif stored == "low_rank":
            assert self._rank is not None
            rows, columns = as_matrix(info.shape)
            change = self._change(key, 0, info.count).view(rows, columns)
            for factor in factorise(change, min(self._rank, rows, columns)):
                _put(file, factor)

    def _store_codes(self, key: str, info: TensorInfo, file: IO[bytes]) -> None:
        assert self._bits is not None
        rows, columns = as_matrix(info.shape)
        scales = []
        for first, last in _runs(rows, max(1, _CHUNK // columns)):
            codes, scale = quantise(self._change(key, first * columns, last * columns).view(-1, columns), self._bits)
            _put(file, encode(codes, self._bits))
            scales.append(scale)
        _put(file, torch.cat(scales))

    def _change(self, key: str, start: int, stop: int) -> Tensor:
        ours, its = torch.empty(2, stop - start, dtype=torch.float32).unbind()
        self._model.read(key, start, ours)
        self._base.read(key, start, its)
        self._refuse_nonsense(key, start, ours.sub_(its))
        return ours

    def _refuse_nonsense(self, key: str, start: int, values: Tensor) -> None:
        if not values.is_floating_point() or math.isfinite(float(values.sum(dtype=torch.float64))):
            return
        bad = (~torch.isfinite(values)).nonzero()
        if len(bad):
            raise NumericalError(
                f"the change of {key!r} is {float(values[int(bad[0])])} at element {start + int(bad[0]):,}; "
                f"mend {self._model.label} (or the base) before packing it"
            )

    def _measure(self, folder: Path, progress: Progress) -> ErrorNote:
        pack = DeltaSource(self._base, folder)
        lost = whole = 0.0
        worst, worst_tensor = 0.0, None
        for key, info in self._model.tensors.items():
            if info.dtype in dtypes.FLOATS:
                missed, change = self._missed(key, pack)
                lost, whole = lost + missed, whole + change
                share = math.sqrt(missed / change) if change else 0.0
                if share > worst:
                    worst, worst_tensor = share, key
            progress.advance(info.nbytes)
        pack.close_pack()
        relative = math.sqrt(lost / whole) if whole else 0.0
        return ErrorNote(relative=_digits(relative), worst=_digits(worst), worst_tensor=worst_tensor)

    def _missed(self, key: str, pack: DeltaSource) -> tuple[float, float]:
        """Squares of what is missing from one tensor, and of its change."""
        missed = change = 0.0
        for start, stop in _runs(self._model.tensors[key].count, _CHUNK):
            ours, its, base = torch.empty(3, stop - start, dtype=torch.float32).unbind()
            for source, out in ((self._model, ours), (pack, its), (self._base, base)):
                source.read(key, start, out)
            missed += _square(ours - its)
            change += _square(ours - base)
        return missed, change


def _small_files(source: Source) -> Mapping[str, Path]:
    return small_files(source.folder, source.files)


def _runs(count: int, step: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + step, count)) for start in range(0, count, step))


def _square(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2


def _digits(value: float) -> float:
    """Six digits: the last ones depend on the number of threads, and a pack's bytes must not."""
    return float(f"{value:.6g}")


def _put(file: IO[bytes], values: Tensor) -> None:
    file.write(values.contiguous().view(-1).view(torch.uint8).numpy().data)
