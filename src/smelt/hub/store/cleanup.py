"""What no row speaks of is removed, if it is of the form that the hub itself writes; anything else is left alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from smelt.files.content_store import ContentStore
from smelt.hub.store.names import is_name
from smelt.hub.store.schema import FileRow, GraphRow, LabelRow, ModelRow

__all__ = ["sweep"]

_VERSION = re.compile(r"[0-9a-f]{64}")
_LABEL = re.compile(r"([0-9a-f]{64})\.(index|safetensors)")


def sweep(session: Session, folder: Path, files: ContentStore) -> None:
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


def _plain(folder: Path) -> list[Path]:
    """What lies in a folder, without links."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if not path.is_symlink()]


def _folders(paths: list[Path], wanted: Collection[str]) -> None:
    for path in paths:
        if path.name not in wanted and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
