"""What `--force` may replace: a folder that Smelt wrote, which has Smelt's own file in it, or an empty one.

Everything else is kept: a word too few in `-o` must not cost somebody's documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from smelt.errors import CorruptFile, OutputError
from smelt.files.json_reader import read_json

__all__ = ["OutputMark", "check_overwrite", "is_free"]


class OutputMark(NamedTuple):
    """The file by which Smelt knows what it wrote: a JSON table with these keys, since others use such names too."""

    name: str
    keys: tuple[str, ...]

    def is_on(self, folder: Path) -> bool:
        """Whether a folder has it."""
        try:
            content = read_json(folder / self.name)
        except CorruptFile:
            return False
        return isinstance(content, dict) and content.keys() >= set(self.keys)


def is_free(folder: Path) -> bool:
    """Whether there is nothing at a place that could be lost: no folder, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_overwrite(folder: Path, mark: OutputMark, *, force: bool) -> None:
    """Refuse a place that is taken, unless `force` is given and what is there is Smelt's own."""
    if is_free(folder):
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file; the output is a folder")
    if not mark.is_on(folder):
        raise OutputError(
            f"{folder} already exists and is not an output of this kind (it has no {mark.name} that Smelt wrote), so "
            "it is kept, with or without --force; choose another folder, or remove this one yourself"
        )
    if not force:
        raise OutputError(f"{folder} already exists; it is kept. Choose another folder, or write --force to replace it")
