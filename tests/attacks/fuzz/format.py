"""What the harness knows of a format: how sound files are made and damaged, and what a user does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.damage_files import Damage

from smelt.errors import SmeltError

__all__ = ["Format"]


def _nothing(place: Path, result: Any) -> str | None:
    return None


@dataclass(frozen=True)
class Format:
    """One format. `read` gets the folder that `make` filled, and the name of the file in it that is damaged."""

    name: str
    make: Callable[[Path], object]
    """Writes sound files; `read` accepts them."""
    files: Mapping[str, Damage]
    """The files that are damaged, by their place in the folder, and how."""
    read: Callable[[Path, str], Any]
    """What a user does with them: the right result, or a refusal."""
    wrong: Callable[[Path, Any], str | None] = _nothing
    """What is wrong with the result of files that were accepted, judged without Smelt's own reader."""
    refusals: tuple[type[Exception], ...] = (SmeltError,)
    share: float = 1.0
    """How many inputs it gets beside the others."""
