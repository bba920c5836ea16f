"""A GGUF file as a Source: read only, dequantised piece by piece, under Hugging Face names where they are known.

In: the blocks of a file that cover a range. Out: numbers. F32, F16, BF16, F64 and integer tensors keep their dtype.
Quantised ones are offered as F32: a block is small integers times half-precision scales, which F32 holds exactly
and F16 or BF16 would round before the merge has begun; the recipe's `dtype` says what is written.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, MissingExtra, RecipeError
from smelt.files.hashing.input_hashes import note_read
from smelt.files.identity import file_identity
from smelt.files.positioned import BINARY, fill
from smelt.formats import dtype as dtypes
from smelt.formats.gguf.header import REMEDY, GGUFHeader, GGUFTensor, check_tensors, read_gguf_header
from smelt.formats.gguf.names import GGUFPlace, map_names
from smelt.formats.gguf.types import PLAIN
from smelt.formats.source import Source, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GGUFSource"]


class GGUFSource(Source):
    """One GGUF file."""

    mapped: bool
    """Whether its tensors go by Hugging Face names."""
    notes: list[str]
    """What a report should mention."""

    def __init__(self, path: Path):
        try:
            import gguf
        except ImportError:
            raise MissingExtra("reading GGUF needs the gguf package: pip install 'smelt[gguf]'") from None
        self.label, self._path, self._gguf = str(path), path, gguf
        self.files = {path: file_identity(path)}
        header = read_gguf_header(path)
        if header.metadata.get("split.count", 1) not in (0, 1):
            raise RecipeError(f"{path}: is one part of a split model; join the parts with `llama-gguf-split --merge`")
        self._stored = header.tensors
        self._types = {name: self._type(name, tensor) for name, tensor in header.tensors.items()}
        check_tensors(path, header)
        architecture = str(header.metadata.get("general.architecture", ""))
        self._places, why = map_names(architecture, header.tensors)
        self.mapped, self.notes = why is None, [] if why is None else [why]
        left_out = sorted(header.tensors.keys() - {place.name for place in self._places.values()})
        if left_out:
            self.notes.append(
                f"{', '.join(left_out)} is computed from a rope scaling that transformers does not read out of GGUF; "
                "put the original model's config.json beside the merged model"
            )
        self._heads = {
            key: self._head_count(header, architecture, place) for key, place in self._places.items() if place.heads
        }
        self.tensors: Mapping[str, TensorInfo] = {
            key: TensorInfo(self._offered(place.name), header.tensors[place.name].shape)
            for key, place in self._places.items()
        }
        if self.mapped and "lm_head.weight" not in self._places:
            self.tied = {"lm_head.weight": "model.embed_tokens.weight"}
        self._descriptor: int | None = os.open(path, os.O_RDONLY | BINARY)

    def config(self) -> dict[str, Any] | None:
        """The Hugging Face config that transformers makes of the file; None without transformers or its support."""
        try:
            from transformers import PretrainedConfig

            made, _ = PretrainedConfig.get_config_dict(str(self._path.parent), gguf_file=self._path.name)
        except (ImportError, ValueError, KeyError, NotImplementedError):
            return None
        return dict(made)

    def read(self, key: str, start: int, out: Tensor) -> None:
        place, count = self._places[key], out.numel()
        if key not in self._heads:
            values = self._elements(place.name, start, count)
        else:
            shape = self.tensors[key].shape
            width = math.prod(shape[1:])
            first, last = start // width, -(-(start + count) // width)
            rows = _interleaved(range(first, last), shape[0] // self._heads[key])
            if len(shape) == 1:  # a bias: too short to be worth reading in pieces
                values = self._elements(place.name, 0, shape[0])[rows]
            else:
                values = self._rows(place.name, rows, width)
            values = values[start - first * width :][:count]
        out.copy_(values.float().add_(place.offset) if place.offset else values)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _elements(self, name: str, start: int, count: int) -> Tensor:
        """A run of elements as they are stored, from the blocks that cover it."""
        import torch

        block, size = self._gguf.GGML_QUANT_SIZES[self._types[name]]
        first, last = start // block, -(-(start + count) // block)
        raw = torch.empty((last - first) * size, dtype=torch.uint8)
        self._fill(raw, self._stored[name].offset + first * size, name)
        return self._decode(name, raw)[start - first * block :][:count]

    def _rows(self, name: str, rows: Sequence[int], width: int) -> Tensor:
        """Rows in the given order, one after the other; they are read singly and dequantised together."""
        import torch

        block, size = self._gguf.GGML_QUANT_SIZES[self._types[name]]
        stride = width // block * size
        raw = torch.empty(len(rows) * stride, dtype=torch.uint8)
        for number, row in enumerate(rows):
            self._fill(raw[number * stride :][:stride], self._stored[name].offset + row * stride, name)
        return self._decode(name, raw)

    def _decode(self, name: str, raw: Tensor) -> Tensor:
        import torch

        kind = self._types[name]
        if kind.name in PLAIN:
            return raw.view(dtypes.torch_dtype(kind.name))
        size = self._gguf.GGML_QUANT_SIZES[kind][1]
        return torch.from_numpy(self._gguf.dequantize(raw.numpy().reshape(-1, size), kind)).view(-1)

    def _fill(self, raw: Tensor, position: int, name: str) -> None:
        if self._descriptor is None:
            raise ValueError(f"{self._path} is closed")
        view = raw.numpy().data
        if not fill(self._descriptor, view, position):
            raise CorruptFile(f"{self._path}: ended while {name!r} was being read; the file has changed")
        note_read(self._descriptor, position, view)

    def _type(self, name: str, tensor: GGUFTensor) -> Any:
        """The quantisation of a tensor, if this gguf package can undo it."""
        import numpy

        try:
            kind = self._gguf.GGMLQuantizationType(tensor.type)
        except ValueError:
            raise CorruptFile(
                f"{self._path}: {name!r} has the tensor type {tensor.type}, which gguf does not know; {REMEDY}"
            ) from None
        size = self._gguf.GGML_QUANT_SIZES[kind][1]
        if kind.name not in PLAIN:
            try:
                self._gguf.dequantize(numpy.zeros((1, size), dtype=numpy.uint8), kind)
            except NotImplementedError:
                raise RecipeError(
                    f"{self._path}: {name!r} is {kind.name}, which gguf cannot dequantise; {REMEDY}"
                ) from None
        return kind

    def _offered(self, name: str) -> str:
        kind: str = self._types[name].name
        return kind if kind in PLAIN else "F32"

    def _head_count(self, header: GGUFHeader, architecture: str, place: GGUFPlace) -> int:
        fields, shape = header.metadata, header.tensors[place.name].shape
        rows = shape[0] if shape else 0
        heads = fields.get(f"{architecture}.{place.heads}", fields.get(f"{architecture}.attention.head_count"))
        if type(heads) is not int or heads <= 0 or not rows or rows % (2 * heads):
            raise CorruptFile(f"{self._path}: {rows} rows of {place.name!r} cannot be ordered by {heads!r} heads")
        return heads


def _interleaved(rows: Sequence[int], per_head: int) -> list[int]:
    """Where rows lie after llama.cpp moved each head's second half between the rows of its first half."""
    half = per_head // 2
    return [row - row % per_head + row % half * 2 + row % per_head // half for row in rows]
