"""Distributed checkpoints of torch in safetensors files (HuggingFaceStorageWriter with `save_distributed`).

    shard-00001-model-00001-of-00002.safetensors    the blocks of rank 1; the header's metadata says where each belongs

There is no table over all files: the shape of a tensor is where its last block ends. A file that is missing between
others is found; the last one of all cannot be missed by what is there, and a note says how many were found.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import names_in, parse_json
from smelt.formats.safetensors import Header, read_header
from smelt.formats.shards.folders import said_step, with_config
from smelt.formats.shards.parts import clean_name
from smelt.formats.shards.pieces import Piece, Pieces, ShardedSource, check_whole
from smelt.formats.shards.recognise import SHARDED_FILE, sharded_safetensors
from smelt.formats.source import Source, TensorInfo

__all__ = ["open_dcp_safetensors"]

_KEY = "DCP_SHARDING_INFO"


def open_dcp_safetensors(path: Path) -> Source:
    """The model in such a folder."""
    folder = sharded_safetensors(path) or path
    names = [name for name in names_in(folder) if SHARDED_FILE.match(name)]
    _check_names(folder, names)
    found: dict[str, list[Piece]] = defaultdict(list)
    infos: dict[str, TensorInfo] = {}
    for number, name in enumerate(names):
        header = read_header(folder / name)
        for key, offsets in _offsets(folder / name, header).items():
            info = header.tensors[key]
            seen = infos.setdefault(key, info)
            if (seen.dtype, len(seen.shape)) != (info.dtype, len(info.shape)):
                raise CorruptFile(
                    f"{folder / name}: {shortened(key)!r} is {info.dtype} of shape {info.shape} here and {seen.dtype} "
                    f"of shape {seen.shape} in another file; shards of two saves may be mixed"
                )
            found[key].append(Piece(number, header.offsets[key], offsets or (0,), info.shape or (1,)))
    tensors = {clean_name(key): _joined(folder, key, infos[key], pieces) for key, pieces in found.items()}
    source = ShardedSource(str(path), [folder / name for name in names], tensors)
    source.folder, about = with_config(folder)
    step = said_step(folder)
    ranks = len({match[1] for name in names if (match := SHARDED_FILE.match(name))})
    source.notes = [f"distributed checkpoint of torch in safetensors, with files of {ranks} ranks{step}", *about]
    return source


def _joined(folder: Path, key: str, first: TensorInfo, pieces: list[Piece]) -> Pieces:
    once = {(piece.offsets, piece.sizes): piece for piece in pieces}  # replicated tensors may stand in several files
    ends = [[at + size for at, size in zip(piece.offsets, piece.sizes, strict=True)] for piece in pieces]
    grid = tuple(map(max, zip(*ends, strict=True)))
    joined = Pieces(TensorInfo(first.dtype, grid if first.shape else ()), grid, tuple(once.values()))
    check_whole(str(folder), key, joined)
    return joined


def _offsets(path: Path, header: Header) -> dict[str, tuple[int, ...]]:
    """Where each block begins in its tensor."""
    said: Any = parse_json(header.metadata.get(_KEY, "{}"), f"{path}: {_KEY}")
    found: dict[str, tuple[int, ...]] = {}
    for key, info in header.tensors.items():
        entry = said.get(key) if isinstance(said, dict) else None
        offsets = entry.get("saved_offsets") if isinstance(entry, dict) else None
        if not isinstance(offsets, list) or len(offsets) != len(info.shape):
            raise CorruptFile(f"{path}: does not say where in the whole tensor {shortened(key)!r} belongs ({_KEY})")
        if not all(type(at) is int and 0 <= at < 1 << 48 for at in offsets):
            raise CorruptFile(f"{path}: {shortened(key)!r} begins at the impossible place {shortened(str(offsets))}")
        found[key] = tuple(offsets)
    return found


def _check_names(folder: Path, names: list[str]) -> None:
    matches = [match for name in names if (match := SHARDED_FILE.match(name))]
    ranks = {int(match[1]) for match in matches}
    missing = sorted(set(range(1, max(ranks) + 1)) - ranks)
    if missing:
        raise CorruptFile(
            f"{folder}: the files of rank {missing[0]} of {max(ranks)} are missing (shard-{missing[0]:05d}-*)"
        )
    totals = {match[3] for match in matches}
    if len(totals) > 1:
        raise CorruptFile(f"{folder}: holds shards of several saves (of {' and of '.join(sorted(totals))} files)")
