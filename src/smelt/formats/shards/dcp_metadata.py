"""The table of a distributed checkpoint of torch (DCP): `.metadata`, a pickle of a handful of record classes.

It is read by a reader of our own that knows these classes by name, makes plain records of them and refuses every other
name, so that nothing in it can run. What it says is checked before it is believed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import read_bytes
from smelt.formats import dtype as dtypes
from smelt.formats.shards.inert_pickle import InertReader, Record
from smelt.formats.source import TensorInfo

__all__ = ["Chunk", "Metadata", "StoredPart", "read_metadata"]

_MOST_BYTES = 256 << 20
"""That of a model of 400 billion parameters on 512 ranks has 60 MB."""
_DCP = "torch.distributed.checkpoint"
_CLASSES = frozenset(
    f"{_DCP}.{name}"
    for name in (
        *("metadata.Metadata", "metadata.TensorStorageMetadata", "metadata.TensorProperties", "metadata.StorageMeta"),
        *("metadata.ChunkStorageMetadata", "metadata.BytesStorageMetadata", "metadata.MetadataIndex"),
        *("metadata._MEM_FORMAT_ENCODING", "filesystem._StorageInfo"),
        # Megatron-core keeps the plans of all ranks beside the table.
        *("planner.SavePlan", "planner.WriteItem", "planner.WriteItemType", "planner.TensorWriteData"),
        *("planner.BytesIOWriteData",),
    )
) | {"torch.serialization._get_layout", "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib._local.PosixPath"}
_VERSIONS = ("1.",)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A block of a tensor."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Where one block, or one object, was written: torch.save's file of it, inside of a larger one."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class Metadata:
    """What is in a checkpoint and where."""

    tensors: Mapping[str, tuple[TensorInfo, tuple[Chunk, ...]]]
    others: tuple[str, ...]
    """Names of what is no tensor."""
    paths: Mapping[str, tuple[str, ...]]
    """The keys that lead to each entry in the state that was saved, where it was nested."""
    parts: Mapping[tuple[str, tuple[int, ...]], StoredPart]
    """By name and offsets."""


def read_metadata(path: Path) -> Metadata:
    """The table of a checkpoint."""
    content = read_bytes(path, _MOST_BYTES)
    try:
        found = InertReader(io.BytesIO(content), records=_CLASSES).load()
    except Exception as error:  # a damaged pickle is a damaged program: it stumbles over anything
        reason = shortened(str(error) or repr(error))
        raise CorruptFile(f"{path}: cannot be read as the table of a distributed checkpoint ({reason})") from None
    try:
        return _metadata(path, _fields(found, "metadata.Metadata"))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFile(f"{path}: is no table of a distributed checkpoint ({shortened(str(error))})") from None


def _metadata(path: Path, said: Mapping[str, Any]) -> Metadata:
    version = said.get("version")
    if version is not None and not str(version).startswith(_VERSIONS):
        raise CorruptFile(
            f"{path}: has version {shortened(str(version))!r} of the format; versions 1.x are read. Turn it into one "
            "file with torch's dcp_to_torch_save"
        )
    tensors, others = {}, []
    for name, entry in _table(said["state_dict_metadata"]).items():
        if _is(entry, "metadata.BytesStorageMetadata"):
            others.append(name)
        else:
            tensors[name] = _tensor(path, name, _fields(entry, "metadata.TensorStorageMetadata"))
    planned = said.get("planner_data")
    paths = dict(_paths(planned)) if isinstance(planned, dict) else {}
    return Metadata(tensors, tuple(others), paths, dict(_parts(_items(said["storage_data"]))))


def _tensor(path: Path, name: str, said: Mapping[str, Any]) -> tuple[TensorInfo, tuple[Chunk, ...]]:
    properties = said["properties"]
    state = properties.state if _is(properties, "metadata.TensorProperties") else None
    dtype = state[0] if isinstance(state, tuple) and state else state["dtype"] if isinstance(state, dict) else None
    code = getattr(dtype, "name", None)
    if not isinstance(code, str) or not dtypes.is_known(code):
        raise CorruptFile(f"{path}: {shortened(name)!r} has a type of numbers that is not read")
    shape = _sizes(said["size"])
    chunks = {
        Chunk(_sizes(one["offsets"]), _sizes(one["sizes"])): None
        for one in (_fields(chunk, "metadata.ChunkStorageMetadata") for chunk in said["chunks"])
    }
    return TensorInfo(code, shape), tuple(chunks)


def _parts(stored: Iterator[tuple[Any, Any]]) -> Iterator[tuple[tuple[str, tuple[int, ...]], StoredPart]]:
    for index, info in stored:
        key, said = _fields(index, "metadata.MetadataIndex"), _fields(info, "filesystem._StorageInfo")
        if said.get("transform_descriptors"):
            raise ValueError(f"{key['fqn']!r} was packed by {said['transform_descriptors']}, which is not read")
        file, offset, length = said["relative_path"], said["offset"], said["length"]
        if not isinstance(key["fqn"], str) or not isinstance(file, str):
            raise TypeError("a name is no text")
        if type(offset) is not int or type(length) is not int or min(offset, length) < 0:
            raise ValueError(f"{key['fqn']!r} lies at the impossible place {offset}")
        yield (key["fqn"], _sizes(key.get("offset") or ())), StoredPart(file, offset, length)


def _paths(planned: Mapping[Any, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, keys in planned.items():
        if isinstance(name, str) and isinstance(keys, tuple) and keys:
            yield name, tuple(str(key) for key in keys if isinstance(key, str | int))


def _sizes(found: Any) -> tuple[int, ...]:
    sizes = tuple(found)
    if not all(type(one) is int and one >= 0 for one in sizes) or math.prod(one or 1 for one in sizes) >= 1 << 60:
        raise ValueError(f"the impossible shape {shortened(str(sizes))}")
    return sizes


def _table(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise TypeError("its entries have no names")
    return found


def _items(found: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(found, dict):
        raise TypeError("it does not say where anything lies")
    return iter(found.items())


def _is(found: Any, name: str) -> bool:
    return isinstance(found, Record) and found.called == f"{_DCP}.{name}"


def _fields(found: Any, name: str) -> Mapping[str, Any]:
    """The fields of a record of this class."""
    if not _is(found, name) or not isinstance(found.state, dict):
        raise TypeError(f"a record of {name} is expected")
    return found.state
