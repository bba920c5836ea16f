"""Distributed checkpoints of torch (DCP): what FSDP, FSDP2, accelerate, torchtitan and Megatron-core save in shards.

    .metadata        every tensor with its shape and its blocks, and where each was written; written last
    __R_N.distcp     files of rank R: what torch.save writes for each block, one after the other

In: the folder. Out: a Source of the model's tensors, each put together from its blocks as it is read. Neither torch nor
a process group is needed, and nothing of it is run, so that no pickle has to be allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from smelt.errors import CorruptFile, shortened
from smelt.files.identity import file_identity
from smelt.files.reading import is_there
from smelt.formats import dtype as dtypes
from smelt.formats.pickle_header import StoredTensor
from smelt.formats.shards.dcp_metadata import Metadata, StoredPart, read_metadata
from smelt.formats.shards.folders import said_step, with_config
from smelt.formats.shards.parts import split_state
from smelt.formats.shards.pieces import Piece, Pieces, ShardedSource, check_whole
from smelt.formats.shards.recognise import DCP_FILE, METADATA, dcp_folder
from smelt.formats.shards.torch_archive import read_archive_at
from smelt.formats.source import Source

__all__ = ["open_dcp", "open_dcp_names"]


def open_dcp(path: Path, part: str | None = None) -> Source:
    """The model of a distributed checkpoint, or another part of it."""
    folder = dcp_folder(path) or path
    metadata = _metadata(folder)
    tensors, others = (
        {name: metadata.paths.get(name) or (name,) for name in names} for names in (metadata.tensors, metadata.others)
    )
    parts = split_state(tensors, others)
    names, notes = parts.choose(str(path), part)
    source = open_dcp_names(str(path), folder, metadata, names)
    source.folder, about = with_config(folder)
    source.notes = [_summary(folder, metadata), *notes, *about]
    return source


def open_dcp_names(label: str, folder: Path, metadata: Metadata, names: Mapping[str, str]) -> ShardedSource:
    """Tensors of a checkpoint under other names: {name: its name there}."""
    files: dict[str, int] = {}
    parts: dict[tuple[int, int], StoredPart] = {}
    tensors: dict[str, Pieces] = {}
    for name, key in names.items():
        info, chunks = metadata.tensors[key]
        pieces = []
        for chunk in chunks:
            found = metadata.parts.get((key, chunk.offsets))
            if found is None:
                raise CorruptFile(f"{folder / METADATA}: does not say where a block of {shortened(key)!r} lies")
            number = files.setdefault(found.file, len(files))
            parts[number, found.offset] = found
            pieces.append(Piece(number, found.offset, chunk.offsets or (0,), chunk.sizes or (1,)))
        tensors[name] = Pieces(info, info.shape or (1,), tuple(pieces))
        check_whole(str(folder), key, tensors[name])
    _check_files(folder, files, parts)
    return _DcpSource(label, [folder / name for name in files], tensors, parts, beside=[folder / METADATA])


def _metadata(folder: Path) -> Metadata:
    if not is_there(folder / METADATA):
        raise CorruptFile(
            f"{folder}: has shards but no {METADATA}, which is written last, so this checkpoint is not finished; use "
            "an earlier one"
        )
    return read_metadata(folder / METADATA)


def _check_files(folder: Path, files: Mapping[str, int], parts: Mapping[tuple[int, int], StoredPart]) -> None:
    """Every file that is named lies in the folder, as long as what it holds."""
    odd = next((name for name in files if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts), None)
    if odd is not None:
        raise CorruptFile(f"{folder / METADATA}: names {shortened(odd)!r}, which is not in this folder")
    missing = [name for name in files if not is_there(folder / name)]
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise CorruptFile(
            f"{folder}: {shortened(missing[0])}{more} is missing; copy the files of every rank, or use another "
            "checkpoint"
        )
    ends: dict[int, int] = {}
    for (number, _), part in parts.items():
        ends[number] = max(ends.get(number, 0), part.offset + part.length)
    for name, number in files.items():
        size = file_identity(folder / name).size
        if size < ends[number]:
            raise CorruptFile(
                f"{folder / name}: has {size:,} bytes, and its last tensor ends at {ends[number]:,}; it is cut off. "
                "Copy it again, or use another checkpoint"
            )


def _summary(folder: Path, metadata: Metadata) -> str:
    ranks = {match[1] for one in metadata.parts.values() if (match := DCP_FILE.match(one.file))}
    by = f"{len(ranks) or 'several'} rank{'s' * (len(ranks) != 1)}"
    return f"distributed checkpoint of torch, written by {by}{said_step(folder)}"


class _DcpSource(ShardedSource):
    """Blocks that know where their numbers are when their little file in the larger one is opened."""

    def __init__(
        self,
        label: str,
        paths: list[Path],
        tensors: Mapping[str, Pieces],
        parts: Mapping[tuple[int, int], StoredPart],
        *,
        beside: list[Path],
    ):
        super().__init__(label, paths, tensors, beside=beside)
        self._parts = parts
        self._places: dict[Piece, Piece] = {}

    def placed(self, piece: Piece, key: str) -> Piece:
        found = self._places.get(piece)
        if found is None:
            found = self._places[piece] = self._look(piece, key)
        return found

    def _look(self, piece: Piece, key: str) -> Piece:
        path, info = self._paths[piece.file], self.tensors[key]
        length = self._parts[piece.file, piece.position].length
        where = f"{path}: {key!r}"
        archive = read_archive_at(where, self.descriptor(piece.file), piece.position, length)
        tensor = archive.content
        if not isinstance(tensor, StoredTensor):
            raise CorruptFile(f"{where} is no tensor there")
        sizes = tensor.shape or (1,)
        if sizes != piece.sizes or tensor.code != info.dtype or not dtypes.is_known(tensor.code):
            raise CorruptFile(
                f"{where} is {tensor.code} of shape {tensor.shape} there, and {info.dtype} of shape {piece.sizes} in "
                f"{METADATA}; shards of two saves may be mixed"
            )
        position, strides = archive.place(tensor)
        return Piece(piece.file, position, piece.offsets, piece.sizes, strides or None)
