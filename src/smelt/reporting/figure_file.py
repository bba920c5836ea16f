"""A figure as data, as an analysis or a suite left it: one JSON object in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.json_reader import read_json

__all__ = ["read_figure"]


def read_figure(path: Path, remedy: str) -> dict[str, Any] | None:
    """The object, None where there is no file; `remedy` is what to do about a file that cannot be read."""
    if not path.is_file():
        return None
    try:
        content = read_json(path)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; {remedy}") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"{path}: should hold an object, has {type(content).__name__}")
    return content
