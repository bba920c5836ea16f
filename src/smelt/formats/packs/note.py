"""delta.json: what a delta pack says of itself, checked when it is read, and the tensors that must lie beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from smelt.errors import CorruptFile
from smelt.files.note import Note
from smelt.files.schema import Strict
from smelt.formats import dtype as dtypes
from smelt.formats.packs.codes import row_bytes
from smelt.formats.source import TensorInfo

__all__ = ["NOTE", "WEIGHTS", "BaseNote", "DeltaNote", "ErrorNote", "TensorNote", "as_matrix", "layout"]

NOTE, WEIGHTS = "delta.json", "delta.safetensors"


class BaseNote(Strict):
    """The model underneath: where it is, seen from the pack's folder, and the SHA-256 of its files by name."""

    ref: str
    sha256: dict[str, str]


class TensorNote(Strict):
    """How one tensor is stored, and the dtype it had in the model that was packed."""

    stored: Literal["base", "codes", "low_rank", "exact"]
    dtype: str


class ErrorNote(Strict):
    """What the pack lost: |change - stored change| / |change| over the model, and of the tensor that lost most."""

    relative: float = 0.0
    worst: float = 0.0
    worst_tensor: str | None = None


class DeltaNote(Note):
    """The content of delta.json."""

    file = NOTE
    called = "a delta pack's note"

    format: Literal["smelt-delta"] = "smelt-delta"
    version: Literal[1, 2] = 2
    base: BaseNote
    bits: Literal[2, 4, 8] | None = None
    rank: Annotated[int, Field(gt=0)] | None = None
    error: ErrorNote = ErrorNote()
    tensors: dict[str, TensorNote]
    absent: list[str] = []
    from_base: dict[str, str] = {}
    """Files beside the weights that are left to the base, each with its SHA-256."""

    def fault(self) -> str | None:
        if (self.bits is None) == (self.rank is None):
            return "it must give either bits or rank"
        if self.from_base and self.version == 1:
            return "from_base needs version 2"
        strange = next((t.dtype for t in self.tensors.values() if not dtypes.is_known(t.dtype)), None)
        return f"there is no dtype {strange!r}" if strange else None

    def dump(self) -> bytes:
        return self.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of a tensor whose first axis are the rows: a convolution is flattened to one row per output."""
    return shape[0], math.prod(shape[1:])


def layout(note: DeltaNote, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    """Every tensor of delta.safetensors, in order, for tensors of these shapes."""
    found: dict[str, TensorInfo] = {}
    for key, tensor in note.tensors.items():
        shape = shapes[key]
        if tensor.stored == "exact":
            found[f"{key}.exact"] = TensorInfo(tensor.dtype, shape)
        elif tensor.stored == "codes" and note.bits is not None:
            rows, columns = as_matrix(shape)
            found[f"{key}.codes"] = TensorInfo("U8", (rows, row_bytes(columns, note.bits)))
            found[f"{key}.scale"] = TensorInfo("F32", (rows,))
        elif tensor.stored == "low_rank" and note.rank is not None:
            rows, columns = as_matrix(shape)
            rank = min(note.rank, rows, columns)
            found[f"{key}.up"] = TensorInfo("F16", (rows, rank))
            found[f"{key}.down"] = TensorInfo("F16", (rank, columns))
            found[f"{key}.scale"] = TensorInfo("F32", (1,))
        elif tensor.stored != "base":
            raise CorruptFile(f"{NOTE}: {key!r} is stored as {tensor.stored}, which does not go with bits or rank")
    return found
