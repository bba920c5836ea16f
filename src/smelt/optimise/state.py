"""A run's folder: what it was begun with, the last saved state, the trace. One run at a time writes to it.

Runs that want one and the same result wait for each other (`alone`); a folder that is in use is refused (`State`).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.atomic import write_file, write_json
from smelt.files.bounded import read_bytes
from smelt.files.json_reader import parse_json_lines, read_json_table
from smelt.files.lock import hold

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["State", "alone", "digest", "read_trace"]

_WORDS, _STATE, _TRACE = "begun.json", "state.safetensors", "trace.jsonl"

_PATIENCE = 3600.0
"""Seconds that a run waits for another one of the same result."""
_LOOK_EVERY = 0.5


class State:
    """The folder of one optimisation, locked for as long as it is open."""

    def __init__(self, folder: Path, words: Mapping[str, Any]):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
        except OSError as error:
            raise OutputError(f"{folder}: the folder cannot be used ({error.strerror})") from None
        try:
            self._check(json.loads(json.dumps(dict(words))))
        except BaseException:
            self.close()
            raise

    def load(self) -> tuple[int, dict[str, Tensor], list[dict[str, Any]]] | None:
        """The step, tensors and trace that were saved last; nothing in a new folder."""
        from smelt.optimise.tensors import load_tensors

        path = self.folder / _STATE
        if not path.exists():
            return None
        tensors, about = load_tensors(path)
        if not about.get("step", "").isdecimal():
            raise CorruptFile(f"{path}: does not say how many steps it has; remove {self.folder}")
        step = int(about["step"])
        trace = read_trace(self.folder / _TRACE)[:step]
        if len(trace) < step:
            raise CorruptFile(f"{self.folder / _TRACE}: has {len(trace)} of {step} steps; remove {self.folder}")
        return step, tensors, trace

    def save(self, step: int, tensors: Mapping[str, Tensor], trace: Sequence[Mapping[str, Any]]) -> None:
        """The trace first: one that is longer than the state says is cut, one that is shorter would be a loss."""
        from smelt.optimise.tensors import save_tensors

        try:
            write_file(self.folder / _TRACE, "".join(json.dumps(line) + "\n" for line in trace))
            save_tensors(self.folder / _STATE, tensors, {"step": str(step)})
        except OSError as error:
            raise OutputError(f"{self.folder}: the state cannot be saved ({error.strerror})") from None

    def close(self) -> None:
        os.close(self._lock)

    def _check(self, words: dict[str, Any]) -> None:
        path = self.folder / _WORDS
        if not path.exists():
            if (self.folder / _STATE).exists():
                raise RecipeError(f"{self.folder} holds the state of something else; choose another folder")
            write_json(path, words)
            return
        try:
            before = read_json_table(path)
        except CorruptFile as error:
            raise CorruptFile(f"{error}; remove {self.folder} to begin anew") from None
        other = sorted(word for word in words.keys() | before.keys() if words.get(word) != before.get(word))
        if other:
            said = ", ".join(_difference(word, before.get(word), words.get(word)) for word in other)
            raise RecipeError(f"{self.folder} was begun with {said}; choose another folder, or remove it")


@contextmanager
def alone(lock: Path, waits: Callable[[], None] | None = None) -> Iterator[None]:
    """Be the only run that holds the file `lock`; `waits` is called once if another one has it.

    The file is gone at the end, and a run that ends in whatever way lets go of it.
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:  # not on Windows, where one run at a time has to do
        yield
        return
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _awaited(lock, waits)
    except OSError as error:
        raise OutputError(f"{lock}: the file cannot be used ({error.strerror})") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held, so that it is ours
        os.close(descriptor)


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The lines of a trace."""
    return list(parse_json_lines(read_bytes(path), str(path))) if path.exists() else []


def digest(tensor: Tensor) -> str:
    """A hash over a tensor's shape and numbers."""
    import torch

    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    content = hashlib.sha256(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
    content.update(flat.view(torch.uint8).numpy().data)
    return content.hexdigest()


def _difference(word: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        return f"another {', '.join(names[:4])}{', …' if len(names) > 4 else ''} among the {word}"
    return f"{word} {before} instead of {now}"


def _awaited(lock: Path, waits: Callable[[], None] | None) -> int:
    """The open file `lock`, held; the one that lies there, not one that its last holder has removed."""
    import fcntl

    until, told = time.monotonic() + _PATIENCE, False
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)
            continue
        except BlockingIOError:
            os.close(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if time.monotonic() > until:
            raise OutputError(
                f"{lock}: another run has been learning the same for {_PATIENCE / 60:.0f} minutes; "
                "wait until it ends, then run again to get its result"
            )
        if waits is not None and not told:
            waits()
        told = True
        time.sleep(_LOOK_EVERY)


def _locked(folder: Path) -> int:
    """An open folder that no other run can have."""
    descriptor = os.open(folder, os.O_RDONLY)
    if not hold(descriptor):
        os.close(descriptor)
        raise RecipeError(f"{folder}: another run is learning there; wait for it or choose another folder")
    return descriptor
