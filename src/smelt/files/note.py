"""Notes: a small JSON file in a folder that says what lies beside it, in a format with a name and a version.

In: a folder that Smelt wrote, whenever that was. Out: its note, checked field by field, or a `CorruptFile` in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from pydantic import ValidationError

from smelt.errors import CorruptFile
from smelt.files.reading import read_json
from smelt.files.schema import Strict, first_fault
from smelt.files.writing import write_file
from smelt.version import __version__

__all__ = ["Note", "differences"]


class Note(Strict):
    """The base of notes. One narrows `format` and `version` to the literals that it reads; it writes their defaults."""

    file: ClassVar[str]
    """The name of the file."""
    called: ClassVar[str]
    """What messages call it: `a delta pack's note`."""

    format: str
    version: int
    smelt: str = __version__

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The note of a folder; anything that is not one is named."""
        path, fields = folder / cls.file, cls.model_fields
        content = read_json(path)
        known = isinstance(content, dict) and content.get("format") == fields["format"].default
        ours, theirs = get_args(fields["version"].annotation), content.get("version") if known else None
        read = " and ".join(map(str, ours))
        other = f"{path}: version {theirs} of the format; this Smelt reads version {read}"
        if theirs is not None and theirs not in ours:
            raise CorruptFile(other)
        try:
            note = cls.model_validate(content)
        except ValidationError as error:
            raise CorruptFile(f"{path}: not {cls.called} ({first_fault(error)})") from None
        if theirs is None:
            raise CorruptFile(other)
        if fault := note.fault():
            raise CorruptFile(f"{path}: not {cls.called} ({fault})")
        return note

    def fault(self) -> str | None:
        """What is wrong with a note whose fields are all well by themselves."""
        return None

    def dump(self) -> bytes:
        """The content of the file."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        write_file(folder / self.file, self.dump())


def differences(before: Mapping[str, Any], now: Mapping[str, Any], most: int | None = None) -> str:
    """How two tables differ, for people: `limit 20 instead of 30, another flags among the tasks`; empty if they do not.

    Of a table in a table the first `most` names are told.
    """
    words = sorted(word for word in now.keys() | before.keys() if now.get(word) != before.get(word))
    return ", ".join(_difference(word, before.get(word), now.get(word), most) for word in words)


def _difference(word: str, before: Any, now: Any, most: int | None) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        more = ", …" if most is not None and len(names) > most else ""
        return f"another {', '.join(names[:most])}{more} among the {word}"
    return f"{word} {before} instead of {now}"
