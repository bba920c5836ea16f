"""A file that is there whole or not at all: written beside its place, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from smelt.errors import OutputError

__all__ = ["write_whole"]


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> Path:
    """Write the pieces one after another. An older file of that name is replaced when all of the new one is there."""
    partial: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        partial = Path(name)
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
    return path
