"""Checkpoints of DeepSpeed's ZeRO: the float32 weights, put together from the parts of all ranks as they are read.

    ZeRO-1, 2    a group of parameters is one long row of numbers, cut into equal parts, one for each rank
    ZeRO-3       every parameter is cut into equal parts, the last one padded; a rank's parts follow each other

Parameters that were frozen are stored beside the model's states, in their own type, and so are buffers. This gives what
DeepSpeed's zero_to_fp32 gives, but buffers and frozen parameters keep the type in which they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import CorruptFile, shortened
from smelt.formats.pickle_header import StoredTensor
from smelt.formats.shards.deepspeed_files import DeepSpeedFiles, read_deepspeed, stage_of, table
from smelt.formats.shards.folders import with_config
from smelt.formats.shards.parts import clean_name
from smelt.formats.shards.pieces import Piece, Pieces, ShardedSource, check_whole, flat_piece, whole_piece
from smelt.formats.shards.recognise import deepspeed_folder
from smelt.formats.shards.torch_archive import TorchArchive
from smelt.formats.source import Source, TensorInfo

__all__ = ["open_deepspeed"]


def open_deepspeed(path: Path, *, allow_pickle: bool = False) -> Source:
    """The float32 weights of a checkpoint; without ZeRO, the module as it is stored."""
    folder = deepspeed_folder(path) or path
    if not allow_pickle:
        raise CorruptFile(
            f"{path}: DeepSpeed's files are pickles, which can run code where torch opens them. Write "
            f"{option('allow_pickle')} to read this one: Smelt reads names and numbers, and runs nothing"
        )
    return _Reader(path, read_deepspeed(folder)).source()


class _Reader:
    """Gathers the pieces of one checkpoint."""

    def __init__(self, path: Path, files: DeepSpeedFiles):
        self._path, self._files = path, files
        self._paths: list[Path] = []
        self._numbers: dict[str, int] = {}
        for kept, _ in (*files.models.values(), *files.optimisers.values()):
            self._numbers[str(kept)] = len(self._paths)
            self._paths.append(kept)
        self._tensors: dict[str, Pieces] = {}

    def source(self) -> Source:
        first = self._files.first
        shapes = first.get("param_shapes")
        stage = 0
        if shapes is None:  # no ZeRO: the module is whole
            self._add_stored(0, self._files.first.get("module"), None)
        else:
            stage = self._stage()
            self._add_stored(0, first.get("module"), self._names(first.get("buffer_names")))
            groups = [self._shapes(group) for group in (shapes if isinstance(shapes, list) else [shapes])]
            (self._add_parts if stage == 3 else self._add_rows)(groups)
            self._add_frozen(stage)
        source = ShardedSource(str(self._path), self._paths, self._tensors)
        source.tied = dict(self._tied(first.get("shared_params") or {}))
        source.folder, about = with_config(self._files.folder)
        source.notes = [self._summary(stage, first), *about]
        return source

    def _stage(self) -> int:
        """The stage, once it is sure that the files of all ranks are there and of one save."""
        ranks = self._files.optimisers
        where = self._files.folder
        if not ranks:
            raise CorruptFile(
                f"{where}: the files *_optim_states.pt are missing, which hold the weights; copy those of every rank, "
                "or use another checkpoint"
            )
        said = {rank: self._files.optimiser(rank) for rank in ranks}
        stage = stage_of(next(iter(said.values())).get("zero_stage"))
        counts = {self._world(one.get("partition_count")) for one in said.values()}
        if stage not in (1, 2, 3) or {stage_of(one.get("zero_stage")) for one in said.values()} != {stage}:
            raise CorruptFile(f"{where}: no stage of ZeRO that is read, or another one for some ranks; ZeRO-1 to 3 are")
        world = max(counts)
        if counts != {world} or len(ranks) != world or set(ranks) != set(range(world)):
            missing = sorted(set(range(world)) - set(ranks))
            what = f"rank {missing[0]} is missing" if missing else "they are of runs with different numbers of ranks"
            raise CorruptFile(
                f"{where}: the run had {world} ranks, and there are {len(ranks)} files *_optim_states.pt; {what}. Copy "
                "the files of every rank, or use another checkpoint"
            )
        return stage

    def _world(self, found: Any) -> int:
        counts = found if isinstance(found, list | tuple) and found else [found]
        if not all(type(count) is int and 0 < count < 1 << 20 for count in counts):
            raise CorruptFile(f"{self._files.folder}: does not say how many ranks the run had (partition_count)")
        return int(max(counts))

    def _add_rows(self, groups: Sequence[Mapping[str, tuple[int, ...]]]) -> None:
        """ZeRO-1 and 2: each group is one row of numbers over all ranks."""
        world = len(self._files.optimisers)
        rows = [self._flat(rank, "single_partition_of_fp32_groups") for rank in range(world)]
        gaps = self._files.optimiser(0).get("param_alignment_paddings")
        if any(len(row) != len(groups) for row in rows):
            raise CorruptFile(f"{self._files.folder}: the ranks' files do not hold {len(groups)} groups of parameters")
        for number, shapes in enumerate(groups):
            parts = [row[number] for row in rows]
            between = gaps[number] if isinstance(gaps, list | tuple) and len(gaps) == len(groups) else [0] * len(shapes)
            at = 0
            for (name, shape), gap in zip(shapes.items(), between, strict=True):
                self._put(name, shape, _cut(parts, at, math.prod(shape)))
                at += math.prod(shape) + int(gap)
            room = 2 * world
            if -(-at // room) != -(-sum(part[2] for part in parts) // room):
                raise CorruptFile(
                    f"{self._files.folder}: its parameters have {at:,} numbers, and the ranks' files hold "
                    f"{sum(part[2] for part in parts):,}; files of two runs may be mixed"
                )

    def _add_parts(self, groups: Sequence[Mapping[str, tuple[int, ...]]]) -> None:
        """ZeRO-3: each parameter is cut over all ranks."""
        world = len(self._files.optimisers)
        rows = [self._flat(rank, "fp32_flat_groups") for rank in range(world)]
        at = 0
        for name, shape in ((name, shape) for group in groups for name, shape in group.items()):
            count = math.prod(shape)
            part = -(-count // world)
            pieces = [
                Piece(piece.file, piece.position, (piece.offsets[0] + rank * part,), piece.sizes)
                for rank, row in enumerate(rows)
                for piece in _cut(row, at, max(0, min(part, count - rank * part)))
            ]
            self._put(name, shape, pieces)
            at += part
        if any(sum(part[2] for part in row) != at for row in rows):
            raise CorruptFile(
                f"{self._files.folder}: a rank's part of the parameters has {at:,} numbers, and the files hold others; "
                "files of two runs may be mixed"
            )

    def _flat(self, rank: int, key: str) -> list[tuple[int, int, int]]:
        """A rank's rows of numbers: (file, first byte, how many)."""
        path, archive = self._files.optimisers[rank]
        found = self._files.optimiser(rank).get(key)
        found = found if isinstance(found, list | tuple) else [found]
        if not all(isinstance(one, StoredTensor) and one.code == "F32" for one in found):
            raise CorruptFile(
                f"{path}: does not hold the float32 weights ({key}); it was saved in a way that is not read"
            )
        return [(self._numbers[str(path)], archive.place(one)[0], math.prod(one.shape)) for one in found]

    def _add_frozen(self, stage: int) -> None:
        """Parameters that no optimiser holds: whole, or cut over the ranks by ZeRO-3."""
        first = self._files.first
        shapes = self._shapes(first.get("frozen_param_shapes") or {})
        if not shapes:
            return
        if stage != 3:
            self._add_stored(0, first.get("frozen_param_fragments"), set(shapes))
            return
        world = len(self._files.optimisers)
        if set(self._files.models) != set(range(world)):
            raise CorruptFile(
                f"{self._files.folder}: the run had {world} ranks, and there are {len(self._files.models)} files "
                "*_model_states.pt; copy those of every rank, or use another checkpoint"
            )
        for name, shape in shapes.items():
            pieces, code, at = [], "", 0
            for rank in range(world):
                path, archive = self._files.models[rank]
                fragments = table(archive, table(archive, archive.content).get("frozen_param_fragments"))
                one = self._tensor(archive, name, fragments.get(name))
                code, here = one.code, min(math.prod(one.shape), math.prod(shape) - at)
                pieces.append(flat_piece(self._numbers[str(path)], archive.place(one)[0], at, here))
                at += here
            self._put(name, shape, pieces, code)

    def _add_stored(self, rank: int, found: Any, names: set[str] | None) -> None:
        """Tensors that lie whole in a file of model states."""
        path, archive = self._files.models[rank]
        seen: dict[tuple[str, int], str] = {}
        for name, one in table(archive, found).items():
            if names is None and not isinstance(one, StoredTensor):
                continue  # what modules keep beside their tensors
            if names is None or name in names:
                one = self._tensor(archive, name, one)
                position, strides = archive.place(one)
                info = TensorInfo(one.code, one.shape)
                twin = seen.setdefault((one.storage.key, position), name)
                if twin == name or self._tensors[clean_name(twin)].info != info:
                    self._tensors[clean_name(name)] = whole_piece(self._numbers[str(path)], position, info, strides)

    def _put(self, name: str, shape: tuple[int, ...], pieces: Sequence[Piece], code: str = "F32") -> None:
        whole = Pieces(TensorInfo(code, shape), (math.prod(shape),), tuple(pieces))
        check_whole(str(self._files.folder), name, whole)
        self._tensors[clean_name(name)] = whole

    def _tensor(self, archive: TorchArchive, name: str, found: Any) -> StoredTensor:
        if not isinstance(found, StoredTensor):
            raise CorruptFile(f"{archive.where}: {shortened(name)!r} is no tensor there, or is missing")
        return found

    def _shapes(self, found: Any) -> dict[str, tuple[int, ...]]:
        if not isinstance(found, Mapping) or not all(
            isinstance(shape, tuple) and all(type(size) is int and 0 <= size < 1 << 48 for size in shape)
            for shape in found.values()
        ):
            raise CorruptFile(f"{self._files.folder}: does not say which parameters its files hold (param_shapes)")
        return {str(name): shape for name, shape in found.items()}

    def _names(self, found: Any) -> set[str]:
        return {name for name in found if isinstance(name, str)} if isinstance(found, list | tuple) else set()

    def _tied(self, shared: Any) -> Iterator[tuple[str, str]]:
        """Names of one parameter; the first is the one that is stored."""
        for name, twin in shared.items() if isinstance(shared, Mapping) else ():
            one, other = clean_name(str(name)), clean_name(str(twin))
            if other in self._tensors and one not in self._tensors:
                yield one, other

    def _summary(self, stage: int, first: Mapping[str, Any]) -> str:
        ranks = len(self._files.optimisers) or 1
        how = f"ZeRO stage {stage}, float32 weights of {ranks} rank{'s' * (ranks != 1)}" if stage else "no ZeRO"
        version, step = first.get("ds_version"), first.get("global_steps")
        said = [f"DeepSpeed {version}" if isinstance(version, str) else "DeepSpeed", how]
        left = ["left out: the optimiser's state"] if ranks else []
        return "; ".join([", ".join([*said, *([f"step {step}"] if type(step) is int else [])]), *left])


def _cut(row: Sequence[tuple[int, int, int]], start: int, count: int) -> list[Piece]:
    """The pieces of `count` numbers of a row from `start` on; the row goes on from one file, or tensor, to the next."""
    pieces, begin = [], 0
    for file, position, size in row:
        low, high = max(start, begin), min(start + count, begin + size)
        if low < high:
            pieces.append(flat_piece(file, position + 4 * (low - begin), low - start, high - low))
        begin += size
    return pieces
