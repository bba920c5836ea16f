"""Delta packs: a fine-tune stored as its base plus a small, slightly lossy change; read as one Source like any model.

A pack is a folder. Beside the config and card of the model that was packed, and those files of its tokenizer and
processor that are not its base's (small_files.py), it holds:

`delta.json`
    {"format": "smelt-delta", "version": 2, "smelt": "0.2.0",
     "base": {"ref": "../clip-tiny", "sha256": {"model.safetensors": "..."}},
     "bits": 4,                                     or "rank": 16
     "error": {"relative": 0.11, "worst": 0.14, "worst_tensor": "..."},
     "tensors": {"vision_model....weight": {"stored": "codes", "dtype": "F32"}, ...},
     "absent": ["text_model....", ...],             the base's tensors that the model does not have
     "from_base": {"tokenizer.json": "..."}}        files that lie at the base, with their SHA-256; version 1 has none
`delta.safetensors`, for a tensor K that is stored as
    base       nothing: it is the base's
    exact      K.exact, its values: vectors, small tensors, and whatever is no float
    codes      K.codes uint8 (rows, bytes), K.scale float32 (rows): the change is code * scale (see codes.py)
    low_rank   K.up float16 (rows, R), K.down float16 (R, columns), K.scale float32 (1): scale * up @ down
Rows are the first axis; a convolution is flattened to one row per output.

The model IS base + stored change: float32 sums, rounded once to the dtype that the packed model had, so that reading
a pack and reading its unpacked folder give the same numbers. `ref` is seen from the pack's folder. A base with
other bytes than the one that was packed against is refused. Closing a pack closes its base.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import CorruptFile, IncompatibleModels, RecipeError, SmeltError
from smelt.files.identity import file_hashes, file_identity
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import identities_beside
from smelt.formats.open import OpenBase
from smelt.formats.packs.note import NOTE, WEIGHTS, DeltaNote, as_matrix, layout
from smelt.formats.packs.small_files import folder_around
from smelt.formats.safetensors import FileSource
from smelt.formats.source import Source, StoredRange, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeltaSource", "base_hashes", "open_delta"]

_TILE = 1 << 16
"""Elements that are decoded at once, about."""
_KEEP = 32
"""Pairs of thin matrices held in memory; a merge walks from layer to layer."""
_opening: ContextVar[tuple[Path, ...]] = ContextVar("packs that are being opened", default=())


def open_delta(folder: Path, open_base: OpenBase) -> DeltaSource:
    """The pack in a folder over the base that it names."""
    folder = folder.resolve()
    _refuse_other_weights(folder)
    chain = _opening.get()
    if folder in chain:
        raise CorruptFile(f"{folder}: a delta pack whose base leads back to itself")
    ref = DeltaNote.load(folder).base.ref
    token = _opening.set((*chain, folder))
    try:
        base = open_base(ref, folder)
    except SmeltError as error:
        raise RecipeError(f"{folder}: a delta pack over {ref!r}, which cannot be opened: {error}") from None
    finally:
        _opening.reset(token)
    try:
        return DeltaSource(base, folder)
    except BaseException:
        base.close()
        raise


def _refuse_other_weights(pack: Path) -> None:
    others = sorted(path.name for path in pack.glob("*.safetensors") if path.name != WEIGHTS)
    if others:
        raise CorruptFile(
            f"{pack}: holds both a delta pack (delta.json) and {others[0]}, so it is unclear which weights are meant; "
            "remove the stale one"
        )


def base_hashes(base: Source) -> dict[str, str]:
    """SHA-256 of the base's files by name (with the folder's, where two are alike); remembered between runs."""
    names = [path.name for path in base.files]
    hashes = file_hashes(base.files)
    return {
        path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}": hashes[Path(path)]
        for path in base.files
    }


class DeltaSource(Source):
    """A pack's folder over the Source of its base."""

    def __init__(self, base: Source, folder: Path):
        note = file_identity(folder / NOTE)
        self.note = DeltaNote.load(folder)
        self._base = base
        self.label = str(folder)
        self.notes = base.notes
        self.arranged_as(base)
        _check_base(self.note, base, folder)
        self.folder = folder_around(folder, self.note, base.folder)
        self.beside = {**base.beside, **(identities_beside(folder) if self.folder != base.folder else {})}
        self.tensors = {key: TensorInfo(t.dtype, base.tensors[key].shape) for key, t in self.note.tensors.items()}
        self.tied = {name: twin for name, twin in base.tied.items() if twin in self.tensors}
        self._delta = FileSource(str(folder), [folder / WEIGHTS])
        # The note is an origin of the numbers too: it says how they are stored.
        self.files = {**base.files, **self._delta.files, folder / NOTE: note}
        try:
            _check_layout(folder, layout(self.note, {k: i.shape for k, i in self.tensors.items()}), self._delta.tensors)
        except CorruptFile:
            self._delta.close()
            raise
        self._lock, self._last = threading.Lock(), threading.local()
        self._pairs: OrderedDict[str, tuple[Tensor, Tensor]] = OrderedDict()

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        stored, info = self.note.tensors[key].stored, self.tensors[key]
        if stored == "exact":
            self._delta.read(f"{key}.exact", start, out)
            return
        if out.numel() == 0 or (stored == "base" and self._base.tensors[key].dtype == info.dtype):
            self._base.read(key, start, out)
            return
        kind = torch.float64 if info.dtype == "F64" else torch.float32
        direct = dtypes.torch_dtype(info.dtype) == kind == out.dtype and out.device.type == "cpu"
        work = out if direct else torch.empty(out.numel(), dtype=kind)
        self._base.read(key, start, work)
        if stored != "base":
            for begin, change in self._changes(key, start, work.numel()):
                low, high = max(start, begin), min(start + work.numel(), begin + change.numel())
                work[low - start : high - start].add_(change[low - begin : high - begin])
        if not direct:
            out.copy_(work.to(dtypes.torch_dtype(info.dtype)))

    def read_from(self, key: str) -> Iterator[StoredRange]:
        stored = self.note.tensors[key].stored
        if stored != "exact":
            yield from self._base.read_from(key)
        for name in self._delta.tensors:
            if name.rpartition(".")[0] == key:
                yield from self._delta.read_from(name)

    def close(self) -> None:
        self.close_pack()
        self._base.close()

    def close_pack(self) -> None:
        """Let go of the pack alone; its base stays open."""
        self._delta.close()

    def _changes(self, key: str, start: int, count: int) -> Iterator[tuple[int, Tensor]]:
        """The stored change in tiles of whole rows that cover a range, each with its first element's place; read only.

        Always the same tiles, whatever the range: a matrix product may round otherwise with other neighbours.
        """
        rows, columns = as_matrix(self.tensors[key].shape)
        step = max(1, _TILE // columns)
        for row in range(start // columns // step * step, min(rows, -(-(start + count) // columns)), step):
            # A thread reads block after block, so the tile that one block ends in is the next one's first.
            if getattr(self._last, "tile", None) != (key, row):
                self._last.values = self._tile(key, row, min(step, rows - row), columns).view(-1)
                self._last.tile = (key, row)
            yield row * columns, self._last.values

    def _tile(self, key: str, row: int, rows: int, columns: int) -> Tensor:
        import torch

        from smelt.formats.packs.codes import decode

        if self.note.bits is None:
            up, down = self._pair(key)
            return torch.mm(up[row : row + rows], down).mul_(self._load(f"{key}.scale", 0, 1))
        width = self._delta.tensors[f"{key}.codes"].shape[1]
        packed = torch.empty(rows * width, dtype=torch.uint8)
        self._delta.read(f"{key}.codes", row * width, packed)
        codes = decode(packed.view(rows, width), self.note.bits, columns)
        return codes.mul_(self._load(f"{key}.scale", row, rows).unsqueeze(1))

    def _pair(self, key: str) -> tuple[Tensor, Tensor]:
        with self._lock:
            if key not in self._pairs:
                up, down = (
                    self._load(name, 0, self._delta.tensors[name].count).view(self._delta.tensors[name].shape)
                    for name in (f"{key}.up", f"{key}.down")
                )
                self._pairs[key] = up, down
                if len(self._pairs) > _KEEP:
                    self._pairs.popitem(last=False)
            return self._pairs[key]

    def _load(self, name: str, start: int, count: int) -> Tensor:
        import torch

        values = torch.empty(count, dtype=torch.float32)
        self._delta.read(name, start, values)
        return values


def _check_base(note: DeltaNote, base: Source, folder: Path) -> None:
    """That the base is the one the change was measured against."""
    ours = base_hashes(base)
    if sorted(ours.values()) != sorted(note.base.sha256.values()):
        told = ", ".join(f"{name} {digest[:12]}" for name, digest in note.base.sha256.items())
        found = ", ".join(f"{name} {digest[:12]}" for name, digest in ours.items())
        raise IncompatibleModels(
            [
                f"{folder} is a change of another base than {base.label}: it was packed against {told}, "
                f"and this one has {found} (SHA-256); restore that base or pack the model again"
            ],
            cannot="be read as base and change",
        )
    lost = next((key for key in note.tensors if key not in base.tensors), None)
    if lost is not None:
        raise CorruptFile(f"{folder / NOTE}: names {lost!r}, which {base.label} lacks")


def _check_layout(folder: Path, expected: Mapping[str, TensorInfo], found: Mapping[str, TensorInfo]) -> None:
    def faults() -> Iterable[str]:
        yield from (f"{name!r} is missing" for name in expected if name not in found)
        yield from (f"{name!r} is not in {NOTE}" for name in found if name not in expected)
        for name, info in expected.items():
            if name in found and found[name] != info:
                told = f"{found[name].dtype} {found[name].shape}"
                yield f"{name!r} is {told} instead of {info.dtype} {info.shape}"

    wrong = list(faults())
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CorruptFile(f"{folder / WEIGHTS}: {'; '.join(wrong[:3])}{more}; fetch or pack it again")
