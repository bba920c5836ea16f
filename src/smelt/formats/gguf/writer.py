"""A model's tensors and fields laid out as a GGUF file, and written through the gguf package.

In: a Source and its config. Out: the file. Tensors go through in pieces of some million numbers, so that memory does
not grow with the model. Vectors and routers are stored as F32, as llama.cpp expects; a matrix whose rows do not divide
into the blocks of a quantisation is stored as F16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import OutputError, RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.gguf.contents import GGUFContent, contents_of
from smelt.formats.gguf.fields import architecture_of, rope_factors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from smelt.formats.source import Source

__all__ = ["TYPES", "GGUFDraft"]

TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4", "tq2_0", "tq1_0")
"""What the gguf package can quantise to; it has no quantisers of the types with K."""
_FILE_TYPES = {"f32": "ALL_F32", "mxfp4": "MOSTLY_MXFP4_MOE"}
_PIECE = 1 << 22
_FACTORS = "rope_freqs.weight"
_SENSITIVE = ("token_embd.weight", "output.weight")
"""Kept at q8_0 in quantised files: rounding harms most where words are told apart."""
_ROUTERS = (".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight")


class GGUFDraft:
    """A file that is laid out and can be written."""

    def __init__(self, gguf: Any, source: Source, config: Mapping[str, Any], type_: str | None):
        self._gguf, self._source, self._config = gguf, source, config
        self.architecture = architecture_of(config, source.label)
        shapes = {key: info.shape for key, info in source.tensors.items()}
        self.contents, homeless = contents_of(self.architecture, shapes)
        if homeless:
            some = ", ".join(homeless[:3]) + (f" and {len(homeless) - 3} more" if homeless[3:] else "")
            raise RecipeError(
                f"{source.label}: {some} has no place in a GGUF file of the architecture {self.architecture!r}"
            )
        self.type = type_ or _stored(source)
        self._kinds = {name: self._kind(name, content.shape) for name, content in self.contents.items()}

    def write(self, path: Path, fields: Mapping[str, Any], progress: Any) -> None:
        writer = self._gguf.GGUFWriter(path, self.architecture)
        try:
            _add_fields(writer, fields)
            file_type = _FILE_TYPES.get(self.type, f"MOSTLY_{self.type.upper()}")
            writer.add_file_type(self._gguf.LlamaFileType[file_type])
            writer.add_quantization_version(self._gguf.GGML_QUANT_VERSION)
            factors = rope_factors(self._config)
            if factors is not None:
                writer.add_tensor_info(_FACTORS, factors.shape, factors.dtype, factors.nbytes)
            for name, content in self.contents.items():
                self._add_info(writer, name, content.shape)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            file = writer.fout[0]
            writer.write_padding(file, file.tell())
            if factors is not None:
                _put(writer, file, iter([factors]))
            progress.begin("writing", sum(info.count for info in self._source.tensors.values()))
            for name, content in self.contents.items():
                _put(writer, file, self._pieces(name, content))
                progress.advance(math.prod(content.shape))
        except OSError as error:
            raise OutputError(f"{path.parent} cannot be written to ({error.strerror}); choose another place") from None
        finally:
            writer.close()

    def _add_info(self, writer: Any, name: str, shape: tuple[int, ...]) -> None:
        import numpy as np

        block, size = self._gguf.GGML_QUANT_SIZES[self._kinds[name]]
        stored = (*shape[:-1], shape[-1] // block * size)
        writer.add_tensor_info(name, stored, np.dtype(np.uint8), math.prod(stored), raw_dtype=self._kinds[name])

    def _kind(self, name: str, shape: tuple[int, ...]) -> Any:
        kinds = self._gguf.GGMLQuantizationType
        if len(shape) < 2 or name.endswith(_ROUTERS):
            return kinds.F32
        kind = kinds[self.type.upper()]
        block = self._gguf.GGML_QUANT_SIZES[kind][0]
        if block > 1 and name in _SENSITIVE:
            kind = kinds.Q8_0
        block = self._gguf.GGML_QUANT_SIZES[kind][0]
        return kinds.F16 if shape[-1] % block else kind

    def _pieces(self, name: str, content: GGUFContent) -> Iterator[npt.NDArray[Any]]:
        """The tensor's bytes in order, whole rows (and whole heads, where rows change places) at a time."""
        import torch

        width = content.shape[-1] if content.shape else 1
        for run in content.runs:
            rows = run.count // width if width else 0
            unit = math.prod(content.shape[:-1]) // self._heads(content.heads) if content.heads else 1
            if content.heads and len(content.shape) == 1:
                unit, width, rows = run.count // self._heads(content.heads), 1, run.count
            step = max(unit, _PIECE // max(1, width) // unit * unit)
            for first in range(0, rows, step):
                count = min(step, rows - first)
                values = torch.empty(count * width)
                self._source.read(run.key, run.start + first * width, values)
                if content.heads:
                    values = values.view(-1, 2, unit // 2, width).transpose(1, 2).reshape(-1)
                if content.offset:
                    values = values.add(content.offset)
                yield self._encoded(name, values.view(count, width).numpy())

    def _encoded(self, name: str, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        encoded: npt.NDArray[Any] = self._gguf.quantize(values, self._kinds[name])
        return encoded

    def _heads(self, field: str) -> int:
        heads = int(self._config["num_attention_heads"])
        return int(self._config.get("num_key_value_heads") or heads) if "kv" in field else heads


def _put(writer: Any, file: Any, pieces: Iterator[npt.NDArray[Any]]) -> None:
    total = 0
    for piece in pieces:
        file.write(piece.tobytes())
        total += piece.nbytes
    writer.write_padding(file, total)


def _add_fields(writer: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)


def _stored(source: Source) -> str:
    """The type that most of the model's numbers have."""
    counts: dict[str, int] = {}
    for info in source.tensors.values():
        counts[info.dtype] = counts.get(info.dtype, 0) + info.count
    code = max(counts, key=lambda one: counts[one], default="F32")
    return code.lower() if code in ("F32", "F16", "BF16") else "f32" if code not in dtypes.FP8 else "bf16"
