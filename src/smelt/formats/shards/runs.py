"""Tensors that are runs of stored ones: renamed, cut out of a stack, split, rows picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from smelt.formats.source import Source, TensorInfo
from smelt.formats.views.joined import JoinedSource
from smelt.formats.views.renamed import Piece

__all__ = ["Joined", "Run", "joined_source"]


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of a stored tensor that follow each other."""

    stored: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Joined:
    """One tensor: runs, one after the other."""

    shape: tuple[int, ...]
    runs: tuple[Run, ...]


def joined_source(stored: Source, joined: Mapping[str, Joined]) -> JoinedSource:
    """`stored` as the tensors of `joined`, each in the format of what it is cut from."""

    def pieces(one: Joined) -> tuple[TensorInfo, tuple[Piece, ...]]:
        dtype = stored.tensors[one.runs[0].stored].dtype
        parts = (Piece(run.stored, run.start, TensorInfo(dtype, (run.count,))) for run in one.runs)
        return TensorInfo(dtype, one.shape), tuple(parts)

    return JoinedSource(stored, {name: pieces(one) for name, one in joined.items()})
