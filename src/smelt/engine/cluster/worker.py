"""What a worker does: it plans the merge that its job belongs to, once, and does units of it as they come.

Called by name from jobs, in processes of any executor. What goes wrong with files comes back as words, since another
try may help: the driver counts them. All other errors are those of a merge, and end it.
"""

from __future__ import annotations

import base64
import errno
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from smelt.caller import asked_by_recipe
from smelt.engine.cluster.board import board_at, is_in_store
from smelt.engine.cluster.briefing import Briefing, names_of_inputs, plan_in_short
from smelt.engine.cluster.parcels import from_text, to_text
from smelt.engine.cluster.part_sink import PartSink
from smelt.engine.cluster.piece_executor import PieceExecutor
from smelt.engine.cluster.piece_sink import PieceSink
from smelt.engine.plan.ready import make_ready
from smelt.engine.pool import opened, with_statistics
from smelt.engine.run.backends import run_limits
from smelt.engine.sink.output import boot_id
from smelt.errors import SmeltError
from smelt.files.hashing.input_hashes import InputHashes
from smelt.files.identity import FileIdentity
from smelt.files.remote.mounts import Mounts, mounting_in
from smelt.jobs.worker import cores
from smelt.recipe.schema import Recipe, parse_size
from smelt.system.process import keep_freed_memory

__all__ = ["close_merge", "fold_unit", "merge_parts", "merge_unit"]


def fold_unit(
    folder: str, run: str, states: str, fold: int, pieces: Sequence[Sequence[int]], pause: float = 0
) -> dict[str, Any]:
    """What pieces of the items of a fold contribute to it."""

    def work(merge: _OpenMerge) -> dict[str, Any]:
        merge.restore(states)
        return {"parts": to_text(merge.executor.fold(fold, pieces))}

    return _answer(folder, run, work, pause)


def merge_unit(
    folder: str,
    run: str,
    states: str | None,
    pieces: Sequence[Sequence[int]],
    sizes: Mapping[str, int],
    where: Mapping[str, Sequence[Any]],
    pause: float = 0,
) -> dict[str, Any]:
    """Merge pieces and write them where they belong; what was hashed of inputs and outputs."""

    def work(merge: _OpenMerge) -> dict[str, Any]:
        sink = merge.sink
        assert isinstance(sink, PieceSink)
        merge.restore(states)
        merge.hashed_inputs()  # of a unit that failed half way: whoever does it again hashes it
        sink.begin(sizes, {key: (name, first) for key, (name, first) in where.items()})
        try:
            merge.executor.merge(pieces)
            outputs = sink.finish()
        finally:
            sink.drop()
        return {"outputs": _texts(outputs), "inputs": _texts(merge.hashed_inputs())}

    return _answer(folder, run, work, pause)


def merge_parts(
    folder: str,
    run: str,
    states: str | None,
    pieces: Sequence[Sequence[int]],
    file: Mapping[str, Any],
    pause: float = 0,
) -> dict[str, Any]:
    """Merge pieces and bring the parts of a file that they fill; what they are, and what was hashed of inputs."""

    def work(merge: _OpenMerge) -> dict[str, Any]:
        sink = merge.sink
        assert isinstance(sink, PartSink)
        merge.restore(states)
        merge.hashed_inputs()
        sink.begin(file)
        try:
            merge.executor.merge(pieces)
            parts = sink.finish()
        finally:
            sink.drop()
        return {"parts": parts, "inputs": _texts(merge.hashed_inputs())}

    return _answer(folder, run, work, pause)


def close_merge() -> None:
    """Close what this process has open; a worker process ends instead."""
    global _current
    if _current is not None:
        _current.close()
    _current = None


_current: _OpenMerge | None = None


class _OpenMerge:
    """A merge that this process helps with."""

    def __init__(self, folder: str, run: str):
        """`folder` is the partial one, or the place of an output in a store."""
        self.folder, self.run = folder, run
        self._board = board_at(folder)
        self.briefing = Briefing.read(self._board)
        self._states: str | None = None
        self._stack = ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        told = self.briefing
        recipe = Recipe.parse(dict(told.recipe))
        place = Path(told.relative_to)
        mounts = Mounts(hub=told.stream)
        self._stack.callback(mounts.close)
        with mounting_in(mounts):
            pool = self._stack.enter_context(opened(recipe.pool, relative_to=place, allow_pickle=recipe.allow_pickle))
            pool = self._stack.enter_context(with_statistics(pool, recipe.statistics, relative_to=place))
            plan = make_ready(recipe, pool).plan
        self._names = names_of_inputs(plan)
        _check_inputs(told.identities, {self._names[path]: seen for path, seen in plan.inputs.items()})
        if plan_in_short(plan) != told.plan:
            raise SmeltError("the plan made here is another one; use one version of Smelt, built alike, everywhere")
        self.sink = self._new_sink()
        memory = told.memory if told.memory is None else parse_size(told.memory) - self.sink.memory
        bounds = run_limits(plan, told.threads or cores(), memory)
        wanted = set(told.unknown)
        self.hashes = InputHashes(
            {path: seen for path, seen in plan.inputs.items() if self._names[path] in wanted}, for_another=True
        )
        words: dict[str, Any] = {"threads": bounds.threads, "room": bounds.room, "streamed": bounds.streamed}
        self.executor = PieceExecutor(plan, self.sink, hashes=self.hashes, **words)
        self._stack.callback(self.executor.close)
        keep_freed_memory()

    def _new_sink(self) -> PieceSink | PartSink:
        told = self.briefing
        if is_in_store(self.folder):
            sink = PartSink(self.folder, told.memory)
            self._stack.callback(sink.close)
            return sink
        return PieceSink(Path(self.folder), told.fingerprint, durable=boot_id() != told.boot)

    def restore(self, states: str | None) -> None:
        """What the folds have found, where this process does not know it yet."""
        if states is not None and states != self._states:
            self.executor.restore(from_text(self._board.read(states)))
            self._states = states

    def hashed_inputs(self) -> dict[str, bytes]:
        """What was hashed of the inputs since this was last asked, by their names."""
        return {self._names[path]: packed for path, packed in self.hashes.packed().items()}

    def close(self) -> None:
        self._stack.close()


def _answer(folder: str, run: str, work: Any, pause: float) -> dict[str, Any]:
    time.sleep(pause)
    try:
        with _merge_of(folder, run) as merge:
            done: dict[str, Any] = work(merge)
            return done
    except OSError as error:
        file = str(error.filename) if error.filename else None
        return {"trouble": error.errno or errno.EIO, "text": error.strerror or str(error), "file": file, **_here()}
    except _CannotOpen as error:
        return {"trouble": None, "text": str(error), "file": None, **_here()}


class _CannotOpen(Exception):
    """It cannot be opened by this process; another machine may see what this one does not."""


@contextmanager
def _merge_of(folder: str, run: str) -> Iterator[_OpenMerge]:
    global _current
    with asked_by_recipe(False):
        if _current is None or (_current.folder, _current.run) != (folder, run):
            close_merge()
            try:
                _current = _OpenMerge(folder, run)
            except SmeltError as error:
                raise _CannotOpen(str(error)) from error
        with asked_by_recipe(_current.briefing.stated):
            yield _current


def _check_inputs(before: Mapping[str, FileIdentity], now: Mapping[str, FileIdentity]) -> None:
    """The inputs must be those that the driver saw. Machines number the devices of a shared file system differently."""
    for name in sorted(before.keys() | now.keys()):
        if name not in before or name not in now:
            raise SmeltError(f"{name} is an input of the {'driver' if name in before else 'worker'} only")
        change = before[name].change(now[name]._replace(device=before[name].device))
        if change is not None:
            raise SmeltError(f"{name} is not the file that the driver has opened: {change}")


def _texts(packed: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(some).decode() for name, some in packed.items()}


def _here() -> dict[str, Any]:
    return {"where": f"{socket.gethostname()}, process {os.getpid()}"}
