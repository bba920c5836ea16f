"""Where measured statistics go: to a folder that was asked for, or to the cache under what they follow from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.errors import CorruptFile, OutputError
from smelt.files.cache import cached_path
from smelt.files.identity import FileIdentity
from smelt.files.reading import read_json
from smelt.formats.statistics import (
    StatisticsNote,
    check_statistics,
    check_statistics_place,
    write_statistics,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Made", "MeasuredStatistics", "cached_statistics", "content_key"]

Made: TypeAlias = "tuple[StatisticsNote, Mapping[str, Tensor]]"

COST = "cost.json"
"""What measuring took. Beside the statistics, not in their note: the same numbers have the same note."""

_VERSION = "1"
"""Raised when the same question gets another answer, so that old answers are not taken for it."""


def content_key(*content: Any) -> str:
    """One name for everything that a statistic follows from."""
    return hashlib.sha256(json.dumps([_VERSION, *content], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class MeasuredStatistics(Shown, os.PathLike[str]):
    """Statistics that lie in a folder. It can be given wherever the folder can."""

    folder: Path
    note: StatisticsNote
    seconds: float
    """What measuring took when it was done."""
    cached: bool = False
    """Whether it had been measured before."""

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)

    def shown(self) -> list[Lines]:
        note, tests = self.note, [use.task for use in self.note.data if use.split == "test"]
        warning = "note: measured on the test split of {}; what is merged with it has seen test data"
        data = " and ".join(f"{use.examples} examples of {use.task} ({use.split or 'in memory'})" for use in note.data)
        made = f"{self.folder}: {note.kind} ({note.estimator}) of {note.model} on {data}, {note.size / 1e6:,.1f} MB"
        return [Lines([*map(warning.format, tests), made])]


def cached_statistics(
    key: str,
    out: Path | None,
    make: Callable[[], Made],
    *,
    inputs: Mapping[Path, FileIdentity],
    force: bool = False,
) -> MeasuredStatistics:
    """The statistics of this key: made if need be, kept in the cache or written to the folder `out`.

    With `force` they are made again, and an `out` that exists is replaced. `inputs` are the model's files, as they were
    when they were opened.
    """
    if out is not None:
        check_statistics_place(out, force=force)
    kept = cached_path("statistics", key[:32])
    known = not force and _whole(kept)
    if out is None:
        if not known:
            _into_cache(kept, make, inputs)
        return replace(_measured(kept), cached=known)
    if known:
        shutil.copytree(kept, out, dirs_exist_ok=True)
    else:
        _make(out, make, inputs, force=force)
    return replace(_measured(out), cached=known)


def _whole(folder: Path) -> bool:
    """Whether the cache has it; what is damaged is removed."""
    if folder.exists() and not check_statistics(folder):
        shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


def _into_cache(folder: Path, make: Callable[[], Made], inputs: Mapping[Path, FileIdentity]) -> None:
    try:
        _make(folder, make, inputs, force=True)
    except OutputError:
        if not check_statistics(folder):  # another process may have been quicker
            raise


def _make(folder: Path, make: Callable[[], Made], inputs: Mapping[Path, FileIdentity], *, force: bool) -> None:
    cost = _Cost()
    note, tensors = make()
    write_statistics(folder, note, tensors, inputs=inputs, force=force, beside=cost)


class _Cost(Mapping[str, bytes]):
    """The file that says what measuring took. Tensors may be made while they are written: it is asked for last."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __getitem__(self, name: str) -> bytes:
        return json.dumps({"seconds": round(time.monotonic() - self._began, 3)}).encode()

    def __iter__(self) -> Iterator[str]:
        return iter([COST])

    def __len__(self) -> int:
        return 1


def _measured(folder: Path) -> MeasuredStatistics:
    try:
        seconds = float(read_json(folder / COST)["seconds"])
    except (OSError, CorruptFile, KeyError, TypeError, ValueError):
        seconds = 0.0
    return MeasuredStatistics(folder, StatisticsNote.load(folder), seconds)
