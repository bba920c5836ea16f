"""What a run that writes to a store notes there, in one object: who is at it, which run it is, how far it has come.

    .NAME.smelt-partial/run.json

It is the lock, too: it is only ever written where it still is what was read (If-None-Match, If-Match), and read back,
so that of two runs at one place one is refused. A run says every 15 seconds that it lives. One that was silent for a
minute by the store's clock is dead, and one of this machine as soon as its process is gone. Where a store knows no
such conditions, only runs that begin within the same second can both believe that the place is theirs; the one whose
note was overwritten finds out before it publishes anything.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, OutputError
from smelt.files.object_store.place import ObjectPlace
from smelt.files.object_store.store import NEW, NotAsExpected, ObjectStore, content_of
from smelt.files.reading import parse_json

__all__ = ["RunLock", "RunState", "read_state"]

_BEAT = 15.0
_DEAD = 60.0
"""Seconds without a sign of life."""


@dataclass(frozen=True)
class RunState:
    """How far a run has come."""

    fingerprint: str
    published: list[str] = field(default_factory=list)
    """Names of objects of the output that are there, or may be."""
    stale: list[str] = field(default_factory=list)
    """Names of an earlier output's or run's objects, which go when this one is complete."""
    owner: str = ""
    """Of the run that is at it; nothing where it has ended."""
    host: str = ""
    process: int = 0
    boot: str = ""


def read_state(store: ObjectStore, key: str) -> tuple[RunState, str, float] | None:
    """The state, its ETag and its age in seconds; None where there is none."""
    about = store.head(key)
    content = content_of(store, key) if about is not None else None
    if about is None or content is None:
        return None
    try:
        said: Any = parse_json(content, key)
        return RunState(**said), about.etag, about.age
    except (CorruptFile, TypeError):
        return RunState(""), about.etag, _DEAD + 1


class RunLock:
    """Held from the beginning to the end of a run. Raises an OutputError where another run has it."""

    def __init__(self, store: ObjectStore, place: ObjectPlace, key: str):
        self._store, self._place, self.key = store, place, key
        self._lock, self._ended = threading.Lock(), threading.Event()
        found = read_state(store, key)
        if found is not None and _is_alive(found[0], found[2]):
            raise _busy(place, found[0], found[2])
        self.before = found[0] if found is not None else None
        """The state of an earlier run that did not end well."""
        self.state = replace(self.before or RunState(""), **_me())
        self._etag = NEW if found is None else found[1]
        self._write(self.state)
        self._heart = threading.Thread(target=self._beat, name="smelt-lock", daemon=True)
        self._heart.start()

    def note(self, **changes: Any) -> None:
        """Write down how far the run has come; fails where another one has taken the place over."""
        with self._lock:
            self._write(replace(self.state, **changes))

    def release(self) -> None:
        """Let the place go, and leave the state for a run that goes on with it."""
        if self._end():
            with self._lock:
                self._write(replace(self.state, owner=""))

    def remove(self) -> None:
        """Let the place go, and leave nothing."""
        if self._end():
            self._store.delete(self.key)

    def _end(self) -> bool:
        if self._ended.is_set():
            return False
        self._ended.set()
        self._heart.join()
        return True

    def _beat(self) -> None:
        while not self._ended.wait(_BEAT):
            try:
                with self._lock:
                    self._write(self.state)
            except OutputError:  # whoever writes the next note hears of it
                continue

    def _write(self, state: RunState) -> None:
        content = json.dumps(asdict(state)).encode()
        try:
            etag = self._store.put(self.key, content, only_if=self._etag)
            if self._store.get(self.key) != content:
                raise NotAsExpected("overwritten")
        except NotAsExpected:
            found = read_state(self._store, self.key)
            if found is not None and found[0] == state:  # an answer got lost, and this was written after all
                self._etag, self.state = found[1], state
                return
            raise _busy(self._place, *((found[0], found[2]) if found else (state, 0.0))) from None
        self._etag, self.state = etag, state


def _me() -> dict[str, Any]:
    return {"owner": uuid.uuid4().hex, "host": socket.gethostname(), "process": os.getpid(), "boot": _boot()}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_alive(state: RunState, age: float) -> bool:
    if not state.owner:
        return False
    if state.boot and (state.host, state.boot) == (socket.gethostname(), _boot()) and not _runs(state.process):
        return False
    return age < _DEAD


def _runs(process: int) -> bool:
    """Whether a process of this machine is there, and no mere remainder that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _busy(place: ObjectPlace, state: RunState, age: float) -> OutputError:
    return OutputError(
        f"{place}: another run is writing there (process {state.process} on {state.host}, seen {max(0.0, age):.0f} s "
        f"ago); wait for it, or choose another output. One that was killed counts as gone after {_DEAD:.0f} s"
    )
