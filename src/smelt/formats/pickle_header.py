"""Names, shapes and types of the tensors in what torch.save wrote, without torch and without running anything in it.

A pickle is a program. Here it may call five functions, all of them in this file, and make tables, lists, numbers and
texts; whatever else it names is refused. The numbers of the tensors are not read.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import open_plain
from smelt.formats.source import TensorInfo

__all__ = ["LONGEST_PROGRAM", "PickleHeader", "StoredTensor", "TableReader", "read_pickle_header"]

LONGEST_PROGRAM = 64 << 20
"""Bytes of the program; that of a model with 100,000 tensors has 20 MB."""
_STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "Float8_e4m3fnStorage": "F8_E4M3", "Float8_e5m2Storage": "F8_E5M2", "LongStorage": "I64", "IntStorage": "I32",
    "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8", "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
}  # fmt: skip
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
_OLD = (0x1950A86A20F9469CFC6C, 1001)
"""What files begin with that torch wrote before they were zips."""


@dataclass(frozen=True)
class PickleHeader:
    """What a file says of its tensors."""

    tensors: Mapping[str, TensorInfo]
    tied: Mapping[str, str]
    """Names that are another name's tensor."""


@dataclass(frozen=True)
class _Code:
    """A type of numbers: a class of storages, or a dtype."""

    name: str


@dataclass(frozen=True)
class _Storage:
    code: _Code
    key: str


@dataclass(frozen=True)
class StoredTensor:
    """A tensor: where in which storage its numbers are."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    code: str


def read_pickle_header(path: Path) -> PickleHeader:
    """The table of tensors in a file: a state dict, or one under `state_dict`."""
    with open_plain(path) as file:
        content = _content(path, file)
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, StoredTensor) for name, tensor in content.items()
    ):
        raise CorruptFile(f"{path}: does not hold a plain table of tensors")
    first: dict[StoredTensor, str] = {}
    tied = {name: first[one] for name, one in content.items() if first.setdefault(one, name) != name}
    kept = {name: TensorInfo(one.code, one.shape) for name, one in content.items() if name not in tied}
    return PickleHeader(kept, tied)


def _content(path: Path, file: BinaryIO) -> Any:
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                program = next((one for one in archive.infolist() if one.filename.endswith("data.pkl")), None)
                if program is None or program.file_size > LONGEST_PROGRAM:
                    raise CorruptFile(f"{path}: a zip without a data.pkl, or with one that is too long")
                return TableReader(io.BytesIO(archive.read(program))).load()
        file.seek(0)
        if (TableReader(file).load(), TableReader(file).load()) != _OLD:
            raise CorruptFile(f"{path}: is not a file that torch.save wrote")
        TableReader(file).load()  # about the machine that wrote it
        return TableReader(file).load()
    except CorruptFile:
        raise
    except Exception as error:  # a damaged pickle is a damaged program: it stumbles over anything
        raise CorruptFile(
            f"{path}: cannot be read without running it ({shortened(str(error) or repr(error))})"
        ) from None


class TableReader(pickle.Unpickler):
    """Knows the names that a table of tensors needs, and no other."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in _BUILDERS:
            build = _BUILDERS[name]
            # One of this reader's own: a pickle may set attributes of whatever it is given, also of a function.
            return lambda *given: build(*given)
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _Code(_STORAGES[name])
        if module == "torch.storage" and name == "UntypedStorage":
            return _Code("U8")
        if module == "torch" and name in _DTYPES:
            return _Code(_DTYPES[name])
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no table of tensors needs")

    def persistent_load(self, pid: Any) -> Any:
        word, code, key, *_ = pid
        if word != "storage" or not isinstance(code, _Code):
            raise pickle.UnpicklingError("it refers to something that is no storage")
        return _Storage(code, str(key))


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_more: Any) -> StoredTensor:
    sizes = _sizes(shape)
    return StoredTensor(storage, int(offset), sizes, _sizes(stride), storage.code.name)


def _tensor_of_type(
    storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, code: Any
) -> StoredTensor:
    return StoredTensor(storage, int(offset), _sizes(shape), _sizes(stride), code.name)


def _parameter(tensor: Any, *_more: Any) -> Any:
    return tensor


def _sizes(shape: Iterable[Any]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if not all(type(size) is int and size >= 0 for size in sizes) or math.prod(size or 1 for size in sizes) >= 1 << 60:
        raise pickle.UnpicklingError(f"a tensor has the impossible shape {shortened(str(sizes))}")
    return sizes


_BUILDERS: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": _tensor,
    "_rebuild_tensor_v2": _tensor,
    "_rebuild_tensor_v3": _tensor_of_type,
    "_rebuild_parameter": _parameter,
    "_rebuild_parameter_with_state": _parameter,
}
