"""Processes that try inputs, and whoever watches them: one that hangs or dies is recorded, ended and replaced.

A worker says which input it begins and what came of it. The limits are 5 s of its processor time (a busy machine is no
fault of an input), one minute of anybody's time (a worker that sleeps uses no processor), and 1 GB more than it had.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fuzz.attempt import LIMIT_SECONDS, Outcome

__all__ = ["Chunk", "Setting", "run_chunks"]

_PATIENCE = 60.0
"""Seconds on the wall that an input may take on a machine that does other things too."""
_MAKING = 300.0
"""Seconds that the sound files of a format may take."""
_PRINTED = 100_000
"""Bytes that an input may have printed."""


@dataclass(frozen=True)
class Chunk:
    """Inputs of one format that one worker tries in a row."""

    format: str
    seed: int
    start: int
    stop: int


@dataclass(frozen=True)
class Setting:
    """What all workers of a run share."""

    table: str = "fuzz.formats"
    """The module with the formats."""
    seconds: float = LIMIT_SECONDS
    save: Path | None = None
    """A folder that gets a copy of the damaged files."""


_USUAL = Setting()


def run_chunks(chunks: list[Chunk], jobs: int, setting: Setting = _USUAL) -> Iterator[Outcome]:
    """The outcome of every input, as they come."""
    todo, workers = deque(chunks), []
    folder = Path(tempfile.mkdtemp(prefix="smelt-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        workers = [_Worker(folder / str(number), setting) for number in range(min(jobs, len(chunks)))]
        while True:
            for worker in workers:
                if worker.chunk is None and todo:
                    worker.give(todo.popleft())
            busy = [worker for worker in workers if worker.chunk is not None]
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy], timeout=0.25)
            for worker in busy:
                if worker.pipe in ready:
                    yield from worker.hear()
                if worker.chunk is not None and (why := worker.overdue()):
                    yield worker.replace(why)
    finally:
        for worker in workers:
            worker.end()
        shutil.rmtree(folder, ignore_errors=True)


class _Worker:
    """One process and what it is at."""

    def __init__(self, folder: Path, setting: Setting):
        self._folder, self._setting, self._number = folder, setting, 0
        self.chunk: Chunk | None = None
        self._at: int | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        place = self._folder / str(self._number)
        self._number += 1
        self._process = context.Process(target=_work, args=(theirs, place, sys.path, self._setting), daemon=True)
        self._process.start()
        theirs.close()
        self._begin(None)

    def _begin(self, index: int | None) -> None:
        self._at, self._since, self._spent = index, time.monotonic(), self._cpu()

    def _cpu(self) -> float:
        try:
            words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return 0.0

    def give(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.pipe.send(chunk)
        self._begin(None)

    def hear(self) -> Iterator[Outcome]:
        try:
            while self.pipe.poll():
                word = self.pipe.recv()
                if isinstance(word, Outcome):
                    yield word
                    self._begin(None)
                elif word is None:
                    self.chunk = None
                    return
                elif isinstance(word, str):
                    raise RuntimeError(f"the harness itself fails:\n{word}")
                else:
                    self._begin(word)
        except (EOFError, ConnectionResetError):
            self._process.join()
            yield self.replace(f"the process died ({self._process.exitcode})")

    def overdue(self) -> str | None:
        """What the worker has used up, if it has."""
        wall = time.monotonic() - self._since
        if self._at is None:
            return f"no sound files after {_MAKING:.0f} s" if wall > _MAKING else None
        if wall > _PATIENCE:
            return f"no answer after {_PATIENCE:.0f} s"
        most = self._setting.seconds
        return f"no answer after {most:.0f} s" if self._cpu() - self._spent > most else None

    def replace(self, why: str) -> Outcome:
        """A new process goes on after the input that this one did not survive."""
        chunk, at = self.chunk, self._at
        assert chunk is not None
        if at is None:
            raise RuntimeError(f"{chunk.format}: {why}, before an input was tried")
        self.end()
        self._start()
        rest = Chunk(chunk.format, chunk.seed, at + 1, chunk.stop)
        self.chunk = None
        if rest.start < rest.stop:
            self.give(rest)
        return Outcome(chunk.format, chunk.seed, at, "", "fault", why)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Connection, folder: Path, path: list[str], setting: Setting) -> None:
    """The process: inputs in, outcomes out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder.mkdir(parents=True)
    quiet = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TRANSFORMERS_VERBOSITY": "error"}
    os.environ.update(
        {**quiet, "OMP_NUM_THREADS": "1", "SMELT_CACHE": str(folder / "cache"), "HF_HOME": str(folder / "hf")}
    )
    sys.path[:] = path
    said = _redirect(folder / "printed")
    places: dict[str, Any] = {}
    while True:
        try:
            _try_inputs(pipe, pipe.recv(), folder, said, setting, places)
        except EOFError:
            return
        except BaseException:
            pipe.send(traceback.format_exc())
            raise


def _try_inputs(
    pipe: Connection, chunk: Chunk, folder: Path, said: int, setting: Setting, places: dict[str, Any]
) -> None:
    from fuzz.attempt import Place, keep_within

    if chunk.format not in places:
        known = import_module(setting.table).FORMATS
        places[chunk.format] = place = Place(known[chunk.format], folder / chunk.format)
        for number in range(len(place.format.files)):  # what the first use loads is not an input's to answer for
            place.attempt(chunk.seed, -number)
    for index in range(chunk.start, chunk.stop):
        pipe.send(index)
        keep_within()
        os.ftruncate(said, 0)
        outcome = places[chunk.format].attempt(chunk.seed, index, setting.save)
        printed = os.fstat(said).st_size
        if printed > _PRINTED and outcome.result != "fault":
            outcome = outcome.as_fault(f"{printed:,} bytes were printed")
        pipe.send(outcome)
    pipe.send(None)


def _redirect(path: Path) -> int:
    """Everything that is printed goes to a file, and nothing can be asked."""
    said = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    return said
