"""Errors that cross from worker to caller as plain data: Smelt's own keep their class and text, others are told."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping
from typing import Any

from smelt.errors import SmeltError

__all__ = ["JobFailed", "WorkerDied", "pack_error", "unpack_error"]

_FRAMES = 3


class JobFailed(SmeltError):
    """A job's function raised something that is not Smelt's own; the text tells what and where."""


class WorkerDied(SmeltError):
    """The process that worked on a job ended before the job did, as often as it was tried."""


def pack_error(error: BaseException) -> dict[str, Any]:
    """An exception as plain data."""
    if isinstance(error, SmeltError):
        kind = type(error)
        words = {name: value for name, value in vars(error).items() if _is_words(value)}
        return {"class": f"{kind.__module__}:{kind.__qualname__}", "text": str(error), "words": words}
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = "".join(f"\n  in {one.name} ({one.filename}, line {one.lineno})" for one in frames)
    return {"class": None, "text": f"{type(error).__name__}: {error}{places}", "words": {}}


def unpack_error(packed: Mapping[str, Any]) -> SmeltError:
    """The exception again: of its own class where that can be found, without running its constructor."""
    kind = _class(packed["class"]) if packed["class"] else JobFailed
    error = kind.__new__(kind)
    Exception.__init__(error, packed["text"])
    for name, value in packed["words"].items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


def _class(name: str) -> type[SmeltError]:
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return JobFailed
    return found if isinstance(found, type) and issubclass(found, SmeltError) else JobFailed


def _is_words(value: Any) -> bool:
    """Text, a number, or several texts: what errors of Smelt remember (`faults`)."""
    if isinstance(value, tuple | list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | int | float)
