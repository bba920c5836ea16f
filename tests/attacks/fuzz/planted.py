"""A format whose reading goes wrong on purpose, in every way that the harness must notice. For its own tests."""

from __future__ import annotations

import os
import random
from pathlib import Path

from fuzz.format import Format

from smelt.errors import SmeltError

__all__ = ["FAULTS", "FORMATS"]

FAULTS = {
    "nothing": "",
    "refuse": "",
    "refuse at length": "a refusal of",
    "raise": "ValueError in",
    "be wrong": "wrong result",
    "print": "bytes were printed",
    "eat": "MemoryError in",
    "hang": "no answer after",
    "die": "the process died",
}
"""What the file can ask for, and how the fault begins that the harness finds then."""


class _Wordy(SmeltError):
    """One whose text is not cut."""

    def __str__(self) -> str:
        return str(self.args[0])


def _make(place: Path) -> None:
    (place / "wish").write_text("nothing")


def _damage(draw: random.Random, content: bytes) -> bytes:
    return draw.choice(list(FAULTS)).encode()


def _read(place: Path, file: str) -> str:
    wish = (place / file).read_text()
    if wish.startswith("refuse"):
        raise _Wordy("no" * (1 if wish == "refuse" else 100_000))
    if wish == "raise":
        raise ValueError(wish)
    if wish == "print":
        os.write(1, b"x" * 1_000_000)
    if wish == "eat":
        bytearray(2_000_000_000)
    if wish == "die":
        os.abort()
    while wish == "hang":
        pass
    return wish


def _wrong(place: Path, wish: str) -> str | None:
    return wish if wish == "be wrong" else None


FORMATS = {"planted": Format("planted", _make, {"wish": _damage}, _read, _wrong)}
