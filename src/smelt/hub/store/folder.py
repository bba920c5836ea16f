"""The folder of a hub and the mark in it: `hub.id`, a random number that the hub's row holds too.

Only a folder with the right mark is ever cleaned up, so that a wrong path costs nothing, and no two hubs share one.
What no row speaks of is removed then, if it is of the form that the hub itself writes; anything else is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session

from smelt.caller import Blank, option
from smelt.errors import RecipeError
from smelt.files.content_store import ContentStore
from smelt.files.writing import fsync_folder
from smelt.hub.location import DATABASE, HubLocation
from smelt.hub.store.database import Database
from smelt.hub.store.index_files import IndexFiles
from smelt.hub.store.names import is_name
from smelt.hub.store.schema import FileRow, GraphRow, LabelRow, ModelRow
from smelt.hub.store.staging import Staging

__all__ = ["MARK", "check_empty", "check_mark", "has_strange_tables", "sweep", "write_mark"]

MARK = "hub.id"
_VERSION = re.compile(r"[0-9a-f]{64}")
_LABEL = re.compile(r"([0-9a-f]{64})\.(index|safetensors)")


def check_empty(place: HubLocation) -> None:
    """Refuse a folder in which anything lies, but for what a hub left whose making was interrupted."""
    folder = place.folder
    names = sorted(path.name for path in folder.iterdir())
    begun = place.database is not None and DATABASE in names
    if MARK in names and not begun:
        raise RecipeError(
            f"{folder}: belongs to another hub (it holds {MARK}); choose a folder of its own for each hub, or remove "
            "that file if its hub is gone"
        )
    ours = {f"{DATABASE}{end}" for end in ("", "-wal", "-shm", "-journal")} | {MARK} if begun else set()
    strange = [name for name in names if name not in ours and not _left_over(folder / name)]
    if strange:
        some = ", ".join(strange[:5]) + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
        raise RecipeError(
            f"{folder}: is not empty (it holds {some}); a hub wants a folder to itself: choose a new or empty one"
        )


def has_strange_tables(database: Database) -> bool:
    """Whether an SQLite file is somebody else's."""
    with database.connection() as connection:
        tables = inspect(connection).get_table_names()
    return bool(tables) and "alembic_version" not in tables


def write_mark(place: HubLocation, mark: str) -> None:
    """Put the mark into a folder; refused where another hub was quicker."""
    path = place.folder / MARK
    if place.database is not None:  # the folder's own database has just said that there is no hub
        path.unlink(missing_ok=True)
    try:
        with path.open("x") as file:
            file.write(f"{mark}\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise RecipeError(f"{place.folder}: another hub took this folder; choose another one") from None
    fsync_folder(place.folder)


def check_mark(place: HubLocation, mark: str) -> None:
    """Refuse a folder that is not the hub's."""
    path = place.folder / MARK
    try:
        found = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        found = ""
    if found == mark:
        return
    told = f"its {MARK} is of another hub" if found else f"it has no {MARK}"
    raise RecipeError(
        f"{place.folder}: is not the folder of the hub at {place.shown} ({told}); give the right one "
        f"({option('files', Blank('FOLDER'))} for a hub on Postgres). If it is the right one, restore the file: "
        f"{MARK} must hold {mark}"
    )


def _left_over(path: Path) -> bool:
    """Whether this is of the form that an interrupted `init` leaves."""
    if path.is_symlink() or not path.is_dir():
        return False
    if path.name == "staging":
        return all(Staging.is_name(one.name) for one in path.iterdir())
    return path.name == "graphs" and all(_VERSION.fullmatch(one.name) for one in path.iterdir())


def sweep(session: Session, folder: Path, files: ContentStore, indexes: IndexFiles) -> None:
    """Inside a write transaction, in a folder that carries the hub's mark."""
    files.sweep(set(session.scalars(select(FileRow.sha256).distinct())))
    copied = set(session.scalars(select(ModelRow.name).where(ModelRow.copied)))
    _folders([path for path in _plain(folder / "models") if is_name(path.name)], copied)
    versions = set(session.scalars(select(GraphRow.version)))
    _folders([path for path in _plain(folder / "graphs") if _VERSION.fullmatch(path.name)], versions)
    labels = set(session.scalars(select(LabelRow.digest)))
    for path in _plain(folder / "labels"):
        form = _LABEL.fullmatch(path.name)
        if form is not None and form[1] not in labels and path.is_file():
            path.unlink(missing_ok=True)
    indexes.sweep(labels)


def _plain(folder: Path) -> list[Path]:
    """What lies in a folder, without links."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if not path.is_symlink()]


def _folders(paths: list[Path], wanted: Collection[str]) -> None:
    for path in paths:
        if path.name not in wanted and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
