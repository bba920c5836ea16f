"""The journal of a run: which tensors are finished, so that a killed run can be resumed.

One line of JSON each. The first says what run it is; a journal of another recipe, other inputs, another version or an
earlier boot of the machine (whose unwritten pages are lost) is not continued.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, OutputError
from smelt.files.json_reader import parse_json
from smelt.files.lock import hold

__all__ = ["Journal"]


class Journal:
    """Held open and locked while a run writes, so that two runs cannot write to one place."""

    NAME = "journal.jsonl"

    def __init__(self, folder: Path, fingerprint: str):
        self._folder = folder
        self._head = {"fingerprint": fingerprint, "boot": _boot_id()}
        self._descriptor: int | None = None
        while self._descriptor is None:
            self._descriptor = _held(folder / self.NAME)

    @classmethod
    def refuse_if_busy(cls, folder: Path) -> None:
        """Raise where another run holds the journal of this folder."""
        try:
            descriptor = os.open(folder / cls.NAME, os.O_RDWR)
        except OSError:
            return
        free = hold(descriptor)
        os.close(descriptor)
        if not free:
            raise _busy(folder)

    def finished(self) -> set[str] | None:
        """The tensors that an earlier run of the same plan finished, or None if it was not the same."""
        assert self._descriptor is not None
        content = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        lines = [_parse(line) for line in content.splitlines()]
        if not lines or lines[0] != self._head:
            return None
        return {line["done"] for line in lines[1:] if isinstance(line, dict) and isinstance(line.get("done"), str)}

    def start(self) -> None:
        """Begin anew."""
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        self._append(self._head)

    def done(self, *keys: str) -> None:
        self._append(*({"done": key} for key in keys))

    def remove(self) -> None:
        """Take it away, with its folder where nothing else is left in there, and only then let go of it."""
        with contextlib.suppress(OSError):  # somebody has removed it, or the next run has begun there
            os.unlink(self._folder / self.NAME)
            os.rmdir(self._folder)
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, *entries: dict[str, Any]) -> None:
        assert self._descriptor is not None
        lines = "".join(f"{json.dumps(entry)}\n" for entry in entries).encode()
        while lines:
            lines = lines[os.write(self._descriptor, lines) :]


def _held(path: Path) -> int | None:
    """The journal, open and locked; nothing where the run that had it took it away in this moment, its work done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except FileNotFoundError:  # the folder went away between the two lines
        return None
    if not hold(descriptor):
        os.close(descriptor)
        raise _busy(path.parent)
    try:
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _busy(folder: Path) -> OutputError:
    return OutputError(f"another run is writing to {folder}; wait for it, or choose another output")


def _parse(line: bytes) -> Any:
    try:
        return parse_json(line, "the journal")
    except CorruptFile:
        return None  # the line that was being written when the run was killed


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{os.name}: unknown"
