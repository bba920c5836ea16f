"""What every rank of FSDP saved by itself with torch.save, as verl's checkpoints have it: its own part of each tensor.

    model_world_size_2_rank_0.pt    rank 0's table of DTensors: the whole shape, the axis, and the rank's own rows
    huggingface/                    config and tokenizer, where verl puts them

A mesh of one axis is read: every rank has another part. Tensors that are no DTensors are the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, names_in
from smelt.formats.pickle_header import StoredTensor
from smelt.formats.shards.folders import said_step, with_config
from smelt.formats.shards.inert_pickle import Record
from smelt.formats.shards.parts import clean_name
from smelt.formats.shards.pieces import Piece, Pieces, ShardedSource, check_whole, whole_piece
from smelt.formats.shards.recognise import RANK_FILE
from smelt.formats.shards.torch_archive import TorchArchive, read_archive
from smelt.formats.source import Source, TensorInfo

__all__ = ["open_rank_files"]

_PLACEMENTS = "torch.distributed.tensor.placement_types."
_OLD_PLACEMENTS = "torch.distributed._tensor.placement_types."


def open_rank_files(path: Path, *, allow_pickle: bool = False) -> Source:
    """The model that the files of all ranks make up."""
    found = [match for name in names_in(path) if (match := RANK_FILE.match(name))]
    worlds = sorted({int(match[1]) for match in found})
    if len(worlds) > 1:
        raise CorruptFile(f"{path}: holds files of runs with {worlds[0]} and {worlds[1]} ranks; remove the stale ones")
    missing = sorted(set(range(worlds[0])) - {int(match[2]) for match in found})
    if missing or len(found) != worlds[0]:
        rank = missing[0] if missing else worlds[0]
        raise CorruptFile(
            f"{path}: the run had {worlds[0]} ranks, and the file of rank {rank} is missing ({len(found)} are there); "
            "copy those of every rank, or use another checkpoint"
        )
    if not allow_pickle:
        raise CorruptFile(
            f"{path}: its shards are pickles, which can run code where torch opens them. Write "
            f"{option('allow_pickle')} to read these: Smelt reads names and numbers, and runs nothing"
        )
    paths = [path / f"model_world_size_{worlds[0]}_rank_{rank}.pt" for rank in range(worlds[0])]
    source = ShardedSource(str(path), paths, _tensors(path, [read_archive(one) for one in paths]))
    config = path / "huggingface"
    source.folder, about = (config, []) if is_there(config / "config.json") else with_config(path)
    source.notes = [f"FSDP, files of {worlds[0]} ranks{said_step(path)}", *about]
    return source


def _tensors(path: Path, archives: list[TorchArchive]) -> dict[str, Pieces]:
    for archive in archives:
        if not isinstance(archive.content, Mapping) or archive.content.keys() != archives[0].content.keys():
            raise CorruptFile(f"{archive.where}: has other tensors than the files of other ranks; two saves are mixed")
    found: dict[str, Pieces] = {}
    for name, one in archives[0].content.items():
        if isinstance(one, StoredTensor):
            position, strides = archives[0].place(one)
            joined = whole_piece(0, position, TensorInfo(one.code, one.shape), strides)
        elif _is_dtensor(one):
            joined = _joined(path, str(name), [archive.content[name] for archive in archives], archives)
        else:
            raise CorruptFile(f"{archives[0].where}: {shortened(str(name))!r} is no tensor that is read")
        found[clean_name(str(name))] = joined
    return found


def _joined(path: Path, name: str, parts: list[Any], archives: list[TorchArchive]) -> Pieces:
    """The parts of all ranks, one after the other along their axis."""
    code, shape, axis = _layout(path, name, parts[0])
    pieces: list[Piece] = []
    begin = 0
    for rank, (one, archive) in enumerate(zip(parts, archives, strict=True)):
        if not _is_dtensor(one) or _layout(path, name, one) != (code, shape, axis):
            raise CorruptFile(f"{archive.where}: {name!r} is laid out otherwise than on rank 0; two saves are mixed")
        local = one.state[1]["_local_tensor"]
        if not isinstance(local, StoredTensor) or local.code != code or len(local.shape) != len(shape):
            raise CorruptFile(f"{archive.where}: {name!r} has no part of its own here")
        position, strides = archive.place(local)
        offsets = [0] * len(shape)
        if axis is not None:
            offsets[axis] = begin
            begin += local.shape[axis]
        pieces.append(Piece(rank, position, tuple(offsets) or (0,), local.shape or (1,), strides or None))
        if axis is None:  # every rank has all of it
            break
    joined = Pieces(TensorInfo(code, shape), shape or (1,), tuple(pieces))
    check_whole(str(path), name, joined)
    return joined


def _is_dtensor(one: Any) -> bool:
    state = one.state if isinstance(one, Record) else None
    inner = state[1] if isinstance(state, tuple) and len(state) == 2 else None
    return isinstance(inner, dict) and "_local_tensor" in inner and isinstance(inner.get("_spec"), Record)


def _layout(path: Path, name: str, one: Record) -> tuple[str, tuple[int, ...], int | None]:
    """Type, whole shape, and the axis along which ranks have parts; None where each has all of it."""
    spec = one.state[1]["_spec"].state
    placements = spec.get("placements") if isinstance(spec, dict) else None
    meta = spec.get("tensor_meta") if isinstance(spec, dict) else None
    given = meta.given if isinstance(meta, Record) else ()
    shape = given[0] if given else None
    code = getattr(given[2], "name", None) if len(given) > 2 else None
    if (
        not isinstance(placements, tuple)
        or not isinstance(shape, tuple)
        or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape)
        or not isinstance(code, str)
    ):
        raise CorruptFile(f"{path}: does not say how {shortened(name)!r} is split over the ranks")
    if len(placements) != 1 or not isinstance(placements[0], Record):
        raise CorruptFile(
            f"{path}: {shortened(name)!r} lies on a mesh of {len(placements)} axes, and one is read; save a "
            "distributed checkpoint (torch.distributed.checkpoint) instead"
        )
    kind = placements[0].called.removeprefix(_PLACEMENTS).removeprefix(_OLD_PLACEMENTS)
    axis = placements[0].state.get("dim") if isinstance(placements[0].state, dict) else None
    if kind == "Replicate":
        return code, shape, None
    if kind != "Shard" or type(axis) is not int or not 0 <= axis < len(shape):
        raise CorruptFile(f"{path}: {shortened(name)!r} is split as {shortened(kind)}, which is not read")
    return code, shape, axis
