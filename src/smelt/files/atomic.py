"""Files and folders that are there whole or not at all: made beside their place under a hidden name, then renamed.

The one place where Smelt renames something into place. What fails half-way leaves what was there before, and no rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.errors import OutputError

__all__ = [
    "atomic_file",
    "atomic_folder",
    "fsync_folder",
    "move_into_place",
    "recover_swap",
    "swap_folder",
    "write_file",
    "write_json",
]


@contextmanager
def atomic_file(path: Path, *, fault: str = "cannot be written", durable: bool = True) -> Iterator[Path]:
    """A path to write a file at, which becomes `path` at the end of the block; its folder is made where it is missing.

    An older file of that name is replaced. A failure of the system is an `OutputError` that says `fault`. The content
    survives a power cut from then on, unless `durable` is false: waiting for the disk takes time.
    """
    draft = _draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        if durable:
            _fsync(draft, os.O_RDONLY)
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"{path}: {fault} ({error.strerror or error})") from None
    finally:
        with contextlib.suppress(OSError):  # renamed, or never made
            os.unlink(draft)


def write_file(
    path: Path,
    content: str | bytes | Iterable[bytes | memoryview],
    *,
    fault: str = "cannot be written",
    durable: bool = True,
) -> Path:
    """Write a text (UTF-8, its line ends as they are), bytes, or pieces of them one after another."""
    pieces = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    with atomic_file(path, fault=fault, durable=durable) as draft, open(draft, "xb") as file:
        for piece in pieces:
            file.write(piece)
    return path


def write_json(path: Path, content: Any, *, indent: int | None = 1, fault: str = "cannot be written") -> Path:
    """Write plain data as JSON, with a line's end at its end."""
    return write_file(path, json.dumps(content, indent=indent) + "\n", fault=fault)


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = False, fault: str = "cannot be written there") -> Iterator[Path]:
    """An empty folder to fill, which becomes `folder` at the end of the block.

    An empty one that is there goes; one that holds something is kept, and an error, unless it is to be replaced.
    """
    place = folder.resolve()
    draft = _draft(place)
    try:
        draft.mkdir(parents=True)
        yield draft
        if replace:
            swap_folder(draft, place, _draft(place))
        else:
            os.rename(draft, place)
    except OSError as error:
        raise OutputError(f"{folder}: {fault} ({error.strerror or error})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def swap_folder(draft: Path, place: Path, aside: Path) -> None:
    """Give a finished folder its name. What has the name goes `aside`, and is removed when the new one is there."""
    if place.exists():
        os.rename(place, aside)
    os.rename(draft, place)
    if aside.exists():
        shutil.rmtree(aside)


def recover_swap(place: Path, aside: Path) -> None:
    """End a swap whose process was killed: what is aside goes, or gets its name back if the new one is not there."""
    if place.exists():
        shutil.rmtree(aside)
    else:
        os.rename(aside, place)


def move_into_place(draft: Path, place: Path) -> None:
    """Give a finished file or folder its name, for good: after this it survives a power cut."""
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if draft.is_dir():
        fsync_folder(draft)
    os.replace(draft, place)
    fsync_folder(place.parent)


def fsync_folder(folder: Path) -> None:
    """After this, names in a folder survive a power cut."""
    _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft(path: Path) -> Path:
    """A name beside a path that nobody else uses."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}")
