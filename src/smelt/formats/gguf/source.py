"""A GGUF model as a Source: read only, dequantised piece by piece, under Hugging Face names where they are known.

In: the blocks of a file that cover a range. Out: numbers. F32, F16, BF16, F64 and integer tensors keep their dtype.
Quantised ones are offered as F32: a block is small integers times half-precision scales, which F32 holds exactly
and F16 or BF16 would round before the merge has begun; the recipe's `dtype` says what is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile, RecipeError
from smelt.files.identity import file_identity
from smelt.formats import dtype as dtypes
from smelt.formats.gguf.blocks import knows
from smelt.formats.gguf.config_reader import model_config
from smelt.formats.gguf.header import REMEDY
from smelt.formats.gguf.inside import files_inside
from smelt.formats.gguf.joins import Shape
from smelt.formats.gguf.names import GGUFPlace, Origin, map_names
from smelt.formats.gguf.parts import GGUFParts
from smelt.formats.gguf.types import PLAIN, TYPES
from smelt.formats.gguf.values import StoredValues, offered, storage
from smelt.formats.source import Source, StoredCodes, TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["GGUFSource"]

_FACTORS = "rope_freqs.weight"


class GGUFSource(Source):
    """One GGUF file, or all the parts of a split one."""

    mapped: bool
    """Whether its tensors go by Hugging Face names."""
    notes: list[str]
    """What a report should mention."""

    def __init__(self, path: Path):
        """`path` is the file, or any part."""
        self.label, self._path = str(path), path
        self._parts = GGUFParts(path)
        self.files = {part: file_identity(part) for part in self._parts.paths}
        self._check_types()
        self._parts.check()
        self.metadata: Mapping[str, Any] = self._parts.metadata
        self.architecture = str(self.metadata.get("general.architecture", ""))
        shapes = {name: tensor.shape for name, tensor in self._parts.tensors.items()}
        self._origins, why = map_names(self.architecture, shapes)
        self.mapped, self.notes = why is None, [] if why is None else [why]
        self._values = StoredValues(self._parts)
        self._parts.open()
        try:
            self._lay_out(shapes)
        except BaseException:
            self._parts.close()
            raise

    def _lay_out(self, shapes: Mapping[str, Shape]) -> None:
        """What is offered, and what there is to say about it."""
        left_out = sorted(shapes.keys() - {name for origin in self._origins.values() for name in origin.names})
        if left_out and "rope_scaling" not in (self.config() or {}):
            self.notes.append(
                f"{', '.join(left_out)} is computed from a rope scaling that is not told by the file; put the original "
                "model's config.json beside what is made of it"
            )
        self._heads = {
            key: self._head_count(origin)
            for key, origin in self._origins.items()
            if isinstance(origin, GGUFPlace) and origin.heads
        }
        self.tensors: Mapping[str, TensorInfo] = {
            key: TensorInfo(self._dtype(origin), origin.shape) for key, origin in self._origins.items()
        }
        self.codes = {
            key: StoredCodes(f"GGUF {kinds}", self._parts.bytes_of(origin))
            for key, origin in self._origins.items()
            if (kinds := self._parts.types_of(origin)) not in PLAIN
        }
        if self.mapped and "lm_head.weight" not in self._origins:
            self.tied = {"lm_head.weight": "model.embed_tokens.weight"}

    def config(self) -> dict[str, Any] | None:
        """The Hugging Face config of the model; None where its architecture is not known here."""
        shapes = {name: tensor.shape for name, tensor in self._parts.tensors.items()}
        return model_config(self.metadata, shapes, self._rope_factors()) if self.mapped else None

    def _rope_factors(self) -> NDArray[np.float32] | None:
        """What the rotary frequencies are divided by, where the file says so."""
        factors = self._parts.tensors.get(_FACTORS)
        plain = factors is not None and TYPES[factors.type].name == "F32" and len(factors.shape) == 1
        return self._values.some(_FACTORS, 0, factors.shape[0]) if factors is not None and plain else None

    def files_inside(self) -> Mapping[str, bytes]:
        return files_inside(self._parts.paths[0], self.config())

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        dtype = self.tensors[key].dtype
        if out.dtype == dtypes.torch_dtype(dtype) and out.is_contiguous():
            self._fill(key, start, out.view(torch.uint8).numpy().view(storage(dtype)))
            return
        values = np.empty(out.numel(), storage(dtype))
        self._fill(key, start, values)
        out.copy_(torch.from_numpy(values.view(np.uint8)).view(dtypes.torch_dtype(dtype)))

    def has_bytes(self, key: str) -> bool:
        return True

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        self._fill(key, start, np.frombuffer(out, storage(self.tensors[key].dtype)))

    def stored_at(self, key: str) -> tuple[int, int] | None:
        origin = self._origins[key]
        if not isinstance(origin, GGUFPlace) or origin.heads or origin.offset:
            return None
        kind = self._values.kind(origin.name)
        descriptor, position = self._parts.stored_at(origin.name)
        return (descriptor, position + origin.start * kind.nbytes) if kind.name in PLAIN else None

    def close(self) -> None:
        self._parts.close()

    def _fill(self, key: str, start: int, out: NDArray[Any]) -> None:
        """Fill `out`, which is of the tensor's own dtype, with its elements from `start` on."""
        origin = self._origins[key]
        if not isinstance(origin, GGUFPlace):
            origin.run(self._values, start, out)
        elif key in self._heads:
            self._fill_rows(key, origin, start, out)
        else:
            self._values.run(origin.name, origin.start + start, out)
            if origin.offset:
                out += np.float32(origin.offset)

    def _fill_rows(self, key: str, origin: GGUFPlace, start: int, out: NDArray[Any]) -> None:
        """The same of a tensor whose rows lie in another order."""
        width = math.prod(origin.shape[1:])
        first, last = start // width, -(-(start + len(out)) // width)
        rows = _interleaved(np.arange(first, last), origin.shape[0] // self._heads[key])
        if len(origin.shape) == 1:  # a bias: too short to be worth reading in pieces
            found = self._values.some(origin.name, 0, origin.shape[0])[rows]
        else:
            found = self._values.rows(origin.name, rows, width)
        out[:] = found[start - first * width :][: len(out)]

    def _check_types(self) -> None:
        """Refuse types that cannot be decoded here."""
        seen: dict[int, bool] = {}
        for name, tensor in self._parts.tensors.items():
            kind = TYPES.get(tensor.type)
            if kind is None or kind.name in PLAIN:
                continue
            if tensor.type not in seen:
                seen[tensor.type] = knows(tensor.type)
            if not seen[tensor.type]:
                raise RecipeError(f"{self._path}: {name!r} is {kind.name}, which gguf cannot dequantise; {REMEDY}")

    def _dtype(self, origin: Origin) -> str:
        if not isinstance(origin, GGUFPlace):
            return origin.dtype(self._values)
        kind = offered(self._values.kind(origin.name))
        if origin.offset and kind != "F32":
            raise CorruptFile(f"{self._path}: the norm {origin.name!r} is {kind}; llama.cpp stores norms as F32")
        return kind

    def _head_count(self, origin: GGUFPlace) -> int:
        fields, rows = self.metadata, origin.shape[0] if origin.shape else 0
        name = self.architecture
        heads = fields.get(f"{name}.{origin.heads}", fields.get(f"{name}.attention.head_count"))
        if type(heads) is not int or heads <= 0 or not rows or rows % (2 * heads):
            raise CorruptFile(f"{self._path}: {rows} rows of {origin.name!r} cannot be ordered by {heads!r} heads")
        return heads


def _interleaved(rows: NDArray[np.int64], per_head: int) -> NDArray[np.int64]:
    """Where rows lie after llama.cpp moved each head's second half between the rows of its first half."""
    half = per_head // 2
    return rows - rows % per_head + rows % half * 2 + rows % per_head // half
