"""The journal of a run: which tensors are finished, so that a killed run can be resumed.

One line of JSON each. The first says what run it is; a journal of another recipe, other inputs or an earlier boot
of the machine (whose unwritten pages are lost) is not continued.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from smelt.errors import OutputError

__all__ = ["Journal"]


class Journal:
    """Held open and locked while a run writes, so that two runs cannot write to one place."""

    NAME = "journal.jsonl"

    def __init__(self, folder: Path, fingerprint: str):
        self._path = folder / self.NAME
        self._head = {"fingerprint": fingerprint, "boot": _boot_id()}
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115 - held open for the life of the run
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise OutputError(f"another run is writing to {folder}; wait for it, or choose another output") from None

    def finished(self) -> set[str] | None:
        """The tensors that an earlier run of the same plan finished, or None if it was not the same."""
        self._file.seek(0)
        lines = [_parse(line) for line in self._file.read().splitlines()]
        if not lines or lines[0] != self._head:
            return None
        return {line["done"] for line in lines[1:] if isinstance(line, dict) and "done" in line}

    def start(self) -> None:
        """Begin anew."""
        self._file.truncate(0)
        self._append(self._head)

    def done(self, key: str) -> None:
        self._append({"done": key})

    def close(self) -> None:
        self._file.close()

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # the line that was being written when the run was killed


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{os.name}: unknown"
