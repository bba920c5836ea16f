"""Statistics: numbers measured on data, kept under the model's own keys. A folder of two files, and a Source.

    statistics.safetensors     sums over the examples, float64 unless the note says otherwise
    statistics.json            what was measured, on which model and data, over how many examples

What is kept are SUMS, so that two halves of the data add up; what a reader sees are MEANS, sum / examples, divided
in float64 and rounded once to whatever it asked for. Masks and components are no sums: they come back as stored.
Names with one and the same statistic (q, k and v have one input) are stored once and read under all their names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from smelt.errors import CorruptFile, RecipeError
from smelt.files.identity import FileIdentity, check_unchanged, file_identity
from smelt.files.note import Note
from smelt.files.schema import Strict
from smelt.files.writing import OutputMark, atomic_folder, check_overwrite, check_writable
from smelt.formats import dtype as dtypes
from smelt.formats.safetensors import FileSource, encode_header
from smelt.formats.source import Source, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "NOTE",
    "SUMS",
    "VALUES",
    "ExampleRun",
    "StatisticKind",
    "StatisticsNote",
    "StatisticsSource",
    "check_statistics",
    "check_statistics_place",
    "open_statistics",
    "write_statistics",
]

NOTE, VALUES = "statistics.json", "statistics.safetensors"
_MARK = OutputMark(NOTE, ("smelt", "kind", "estimator"))

StatisticKind = Literal["fisher", "gram", "mask", "components"]
SUMS: frozenset[StatisticKind] = frozenset({"fisher", "gram"})
"""The kinds that are sums over examples; the others are what they are."""

_Count = Annotated[int, Field(ge=0, lt=2**63)]


class ExampleRun(Strict):
    """One run of examples: those from `first` on of the stream with this hash."""

    task: str
    split: str | None = None
    examples: Annotated[int, Field(ge=1)]
    hash: str
    """Of the whole stream, whatever part of it was used."""
    first: _Count = 0
    labels: _Count = 0
    """How many of their labels were looked at."""


class StatisticsNote(Note):
    """The content of statistics.json."""

    file = NOTE
    called = "a note of statistics"

    format: Literal["smelt-statistics"] = "smelt-statistics"
    version: Literal[1] = 1
    kind: StatisticKind
    estimator: str
    """How: exact, sampled, empirical, batched_sqrt/32; inputs, merged_inputs/... for Grams."""
    model: str
    """How messages call the model."""
    model_hash: str
    """Over its numbers, as the family computes it."""
    model_files: dict[str, str] = {}
    """SHA-256 of the files it came from, by name; none where it did not come from files."""
    data: tuple[ExampleRun, ...]
    examples: _Count
    """The number of examples that the sums run over."""
    dtype: Literal["F64", "F32"] = "F64"
    tied: dict[str, str] = {}
    """Names that have the statistic of another name, which is stored."""
    sha256: str = ""
    """Of the file with the tensors; this and its size are filled in by writing."""
    size: _Count = 0

    def fault(self) -> str | None:
        without = self.kind in SUMS and self.examples < 1
        return "examples: sums over none have no mean" if without else None


class StatisticsSource(Source):
    """A folder of statistics. `read` gives means of sums, and everything else as it is."""

    def __init__(self, folder: Path):
        note = file_identity(folder / NOTE)
        self.note = StatisticsNote.load(folder)
        self.label = str(folder)
        self.folder = None
        values = folder / VALUES
        if not values.is_file():
            raise CorruptFile(f"{folder}: has a {NOTE} but no {VALUES}; measure again")
        if self.note.size and values.stat().st_size != self.note.size:
            raise CorruptFile(
                f"{values}: has {values.stat().st_size:,} bytes instead of the {self.note.size:,} that its note "
                "gives; it is cut off or was replaced, so measure again"
            )
        self.sha256 = ""
        """Of the file with the tensors as it is now, where that is known; the note has what it should be."""
        self._values = FileSource(str(folder), [values])
        self.values = values
        self.files = {**self._values.files, folder / NOTE: note}
        self.stored: Mapping[str, TensorInfo] = self._values.tensors
        """The tensors of the file, without the names that share them."""
        try:
            self.tensors = {**self.stored, **{name: self._twin(name) for name in self.note.tied}}
            strange = next((name for name, info in self.stored.items() if info.dtype != self.note.dtype), None)
            if strange is not None and self.note.kind in SUMS:
                raise CorruptFile(
                    f"{folder}: {strange!r} is {self.stored[strange].dtype}, but its note says {self.note.dtype}"
                )
        except BaseException:
            self.close()
            raise

    def read(self, key: str, start: int, out: Tensor) -> None:
        if self.note.kind not in SUMS:
            self._values.read(self.note.tied.get(key, key), start, out)
            return
        import torch

        exact = torch.empty(out.shape, dtype=torch.float64)
        self.read_sum(key, start, exact)
        out.copy_(exact.div_(self.note.examples))

    def read_sum(self, key: str, start: int, out: Tensor) -> None:
        """What is stored: the sum over the examples."""
        self._values.read(self.note.tied.get(key, key), start, out)

    def close(self) -> None:
        self._values.close()

    def _twin(self, name: str) -> TensorInfo:
        twin = self.note.tied[name]
        if twin not in self.stored or name in self.stored:
            raise CorruptFile(f"{self.label}: {name!r} is said to share the statistic of {twin!r}, which does not fit")
        return self.stored[twin]


def open_statistics(ref: str | Path) -> StatisticsSource:
    """The statistics in a folder. Only a path (or `dir:path`) names statistics.

    The file is hashed once: the hash is remembered before a merge begins to hash its inputs for the manifest.
    """
    from smelt.files.identity import file_hashes

    source = _with_header(ref)
    if source.note.sha256:
        source.sha256 = file_hashes({source.values: source.files[source.values]})[source.values]
    return source


def _with_header(ref: str | Path) -> StatisticsSource:
    folder = Path(os.path.expanduser(str(ref).removeprefix("dir:")))
    if not folder.exists():
        raise RecipeError(
            f"there are no statistics at {str(folder)!r}; make them with `smelt measure fisher|gram MODEL --task T`"
        )
    if not folder.is_dir() or not (folder / NOTE).is_file():
        raise RecipeError(f"{folder}: not a folder of statistics (it has no {NOTE}); `smelt measure` writes such ones")
    return StatisticsSource(folder)


def check_statistics(folder: Path) -> bool:
    """Whether a folder holds statistics whose every byte is as it was written."""
    from smelt.files.identity import hash_file

    try:
        with_header = _with_header(folder)
        with_header.close()
        return bool(with_header.note.sha256) and hash_file(folder / VALUES) == with_header.note.sha256
    except (OSError, CorruptFile, RecipeError):
        return False


def write_statistics(
    folder: Path,
    note: StatisticsNote,
    tensors: Mapping[str, Tensor],
    *,
    inputs: Mapping[Path, FileIdentity] | None = None,
    force: bool = False,
    beside: Mapping[str, bytes] | None = None,
) -> StatisticsNote:
    """Write a folder whole or not at all, and give back its note. Sums are stored in the note's dtype.

    `tensors` is asked for one tensor at a time and may make them as it goes. With `force` an existing folder of
    statistics is replaced; anything else that is in the way is kept, and an error. `beside` are further small files,
    of which the statistics know nothing. Nothing is written where one of the `inputs` changed since it was opened.
    """
    check_statistics_place(folder, force=force)
    with atomic_folder(folder, replace=True, fault="the statistics cannot be written there") as partial:
        written = _write_values(partial / VALUES, note, tensors)
        for name, content in {**(beside or {}), NOTE: written.dump()}.items():
            (partial / name).write_bytes(content)
        check_unchanged(inputs or {})
        check_statistics_place(folder, force=force)  # what appeared there meanwhile is kept
    return written


def check_statistics_place(folder: Path, *, force: bool) -> None:
    """Refuse a place that something else takes, before any work is done."""
    check_overwrite(folder, _MARK, force=force)
    check_writable(folder, "the statistics cannot be written there")


def _write_values(path: Path, note: StatisticsNote, tensors: Mapping[str, Tensor]) -> StatisticsNote:
    import hashlib

    import torch

    sums = note.kind in SUMS
    shapes = {
        name: TensorInfo(note.dtype if sums else dtypes.code_of(tensor.dtype), tuple(tensor.shape))
        for name, tensor in getattr(tensors, "described", tensors).items()  # shapes first, where numbers are dear
    }
    head, _ = encode_header(shapes, {"format": "smelt-statistics", "kind": note.kind})
    digest = hashlib.sha256(head)
    with open(path, "wb") as file:
        file.write(head)
        for name, info in shapes.items():
            stored = tensors[name].detach().to("cpu", dtypes.torch_dtype(info.dtype)).reshape(-1)
            content = stored.view(torch.uint8).numpy().data
            digest.update(content)
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return note.model_copy(update={"sha256": digest.hexdigest(), "size": size})
