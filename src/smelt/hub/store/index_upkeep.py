"""What keeps the files of a hub's index few: merging those of like size, and bringing old hubs to this form.

Long work is done in staging; only the exchange of the files is a write transaction. Readers notice nothing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from smelt.errors import CorruptFile, SmeltError
from smelt.files.writing import try_lock
from smelt.hub.labels.merge_segments import merge_segments
from smelt.hub.labels.segment import Segment
from smelt.hub.store.old_indexes import convert, is_old_index
from smelt.hub.store.schema import LabelRow

if TYPE_CHECKING:
    from smelt.hub.store.store import HubStore

__all__ = ["convert_old_indexes", "merge_indexes"]


def merge_indexes(store: HubStore) -> None:
    """Join files where there are many of a size. One process at a time does it; another one leaves it to that.

    What is damaged stays as it is, until its labels are made anew.
    """
    damaged: set[Path] = set()
    while due := store.indexes.due(_wanted(store), damaged):
        with _merging(store.indexes.folder) as alone:
            if not alone:
                return
            damaged |= _merge(store, due)


def _wanted(store: HubStore) -> set[str]:
    with store.read() as session:
        return set(session.scalars(select(LabelRow.digest)))


def _merge(store: HubStore, due: Sequence[Segment]) -> set[Path]:
    """Make some files one; gives those that are damaged, and then changes nothing."""
    paths = [one.path for one in due if one.path is not None]
    with store.staging() as staging:
        try:
            names = merge_segments(staging / "segment", due, _wanted(store))
        except CorruptFile:
            return {path for path in paths if not _is_sound(path)} or set(paths)
        with store.write():
            if all(path.is_file() for path in paths):  # else another process has changed them meanwhile
                store.indexes.replace(staging / "segment" if names else None, paths)
    return set()


def _is_sound(path: Path) -> bool:
    try:
        Segment.open(path).verify()
    except CorruptFile:
        return False
    return True


@contextmanager
def _merging(folder: Path) -> Iterator[bool]:
    """Whether this process alone may merge now."""
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / "merging.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield try_lock(descriptor, 0)
    finally:
        os.close(descriptor)


def convert_old_indexes(store: HubStore) -> None:
    """Bring a hub of an older Smelt, with a file for each label's index, to segments."""
    from smelt.hub.graph.graph import SemanticGraph

    old = [path for path in (store.folder / "labels").glob("*.index") if is_old_index(path)]
    graph_of = functools.cache(lambda version: SemanticGraph.load(store.graph_folder(version)))
    for path in old:
        with store.staging() as staging:
            try:
                made: Path | None = convert(path, staging / "index", graph_of)
            except SmeltError:  # it is damaged, or its graph is gone
                made = None
            with store.write():
                if path.is_file():  # else another process was quicker
                    if made is not None:
                        store.indexes.add(made)
                    path.unlink()
    if old:
        merge_indexes(store)
