"""Folders of small files for models that lie in no folder as they are read: config, tokenizer, processor.

Such a folder lies in the cache, under a hash of all that is in it. So whatever asks for a model's folder (merges that
copy its small files, evaluations that read its tokenizer) finds there what it would find at an ordinary model. Files
that lie somewhere already are links there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from smelt.errors import OutputError
from smelt.files.cache import cached_path
from smelt.files.writing import atomic_folder

__all__ = ["folder_of", "folder_of_links"]


def folder_of(tables: Mapping[str, Any], copied: Mapping[str, bytes]) -> Path:
    """The folder with these tables as JSON and these files."""
    content = {name: json.dumps(table, indent=1).encode() + b"\n" for name, table in tables.items()} | dict(copied)
    parts = [name.encode() + b"\0" + content[name] for name in sorted(content)]
    key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]

    def write(draft: Path) -> None:
        for name, text in content.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(text)

    return _made(cached_path("small_files", key), write)


def folder_of_links(files: Mapping[str, Path], name: str) -> Path:
    """The folder, of this name, in which these files and folders are found by these names."""
    places = {one: files[one].resolve() for one in sorted(files)}
    told = "\n".join([name, *(f"{one}\0{place}" for one, place in places.items())])
    key = hashlib.sha256(os.fsencode(told)).hexdigest()[:32]

    def link(draft: Path) -> None:
        for one, place in places.items():
            (draft / one).symlink_to(place)

    return _made(cached_path("small_files", key) / name, link)


def _made(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, filled if it is not there; another process may be first."""
    if not folder.is_dir():
        with suppress(OutputError), atomic_folder(folder) as draft:
            fill(draft)
        if not folder.is_dir():
            raise OutputError(f"{folder}: cannot be written; give $SMELT_CACHE a folder that can")
    return folder
