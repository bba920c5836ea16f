"""Jobs: labelling in the background, one at a time in each worker, with its progress in the store.

All services of a hub see the same jobs, and each job has a lease: its owner says every few seconds that it is alive, by
the database's clock. One that has not for a while belongs to a process that died: it is taken up again by the next
worker, and given up after three attempts. What an owner writes counts only while the lease is its own. A wish to cancel
a job stands in its row, where its owner finds it with the next note of progress.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from smelt.errors import RecipeError, SmeltError
from smelt.hub.models.cards import LabelJob, Progress, record
from smelt.hub.store.database import clock
from smelt.hub.store.schema import JobRow
from smelt.hub.store.store import HubStore

__all__ = ["JobCancelled", "Worker", "background", "cancel_job", "find_job", "job_rows", "last_jobs", "queue_job"]

_BEAT = 5.0
"""Seconds between two signs of life."""
_SILENCE = timedelta(seconds=30)
_ATTEMPTS = 3
_STEP = 0.3
"""Seconds between two notes of progress."""
_PAUSE = 5.0
"""Seconds before a worker looks again."""
_NICE = 5
_OPEN = ("waiting", "running")
_CANCELLED = "cancelled by request"


class JobCancelled(SmeltError):
    """Raised inside a job that somebody cancelled."""


def background() -> None:
    """From now on this thread, and those that it starts, yield to threads that answer somebody."""
    if sys.platform == "linux":  # elsewhere the number of a thread is none of a process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def queue_job(store: HubStore, kind: str, model: str) -> int:
    """A new job; the one that is waiting or running for the same model, if there is one."""
    with store.write() as session:  # alone, or two would find none and make one each
        open_ = select(JobRow.id).where(
            JobRow.kind == kind, JobRow.model == model, JobRow.status.in_(_OPEN), JobRow.cancelled.is_(False)
        )
        if (old := session.scalar(open_)) is not None:
            return old
        row = JobRow(kind=kind, model=model)
        session.add(row)
        session.flush()
        return row.id


def job_rows(store: HubStore, model: str | None = None, most: int | None = None) -> list[LabelJob]:
    """All jobs, or so many, the newest first."""
    with store.read() as session:
        query = select(JobRow).order_by(JobRow.id.desc()).limit(most)
        return [
            record(LabelJob, row)
            for row in session.scalars(query if model is None else query.where(JobRow.model == model))
        ]


def last_jobs(store: HubStore) -> dict[str, LabelJob]:
    """The last job of every model whose last one did not end well."""
    newest = select(func.max(JobRow.id)).group_by(JobRow.model)
    with store.read() as session:
        rows = session.scalars(select(JobRow).where(JobRow.id.in_(newest), JobRow.status != "done"))
        return {row.model: record(LabelJob, row) for row in rows}


def cancel_job(store: HubStore, number: int) -> LabelJob:
    """End a job: one that waits at once, one that runs as soon as its worker hears of it, wherever that is."""
    with store.write_rows() as session:
        row = session.get(JobRow, number, with_for_update=True)
        if row is None:
            raise RecipeError(f"there is no job number {number}")
        if row.status not in _OPEN:
            raise RecipeError(f"job {number} is over already ({row.status})")
        row.cancelled = True
        if row.status == "waiting":
            _end(row, "cancelled", _CANCELLED, clock(session))
        return record(LabelJob, row)


def _end(row: JobRow, status: str, error: str, at: datetime) -> None:
    row.status, row.error, row.finished = status, error, at


def find_job(store: HubStore, number: int) -> LabelJob:
    """One job."""
    with store.read() as session:
        row = session.get(JobRow, number)
        if row is None:
            raise RecipeError(f"there is no job number {number}")
        return record(LabelJob, row)


class Worker:
    """A thread that does what is waiting. `work` labels a model; it raises SmeltError where that cannot be done."""

    def __init__(self, store: HubStore, work: Callable[[str, Progress], None]):
        self._store, self._work = store, work
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{_place()}:{id(self):x}"
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._again, self._poke, self._stays = False, threading.Event(), False
        self._ends: dict[tuple[int, int], dict[str, object]] = {}
        """How jobs ended, by number and attempt, until that is written down."""

    def wake(self, *, stay: bool = False) -> None:
        """There may be something to do; `stay`: and from now on again and again, since others queue jobs, too."""
        with self._lock:
            self._stays = self._stays or stay
            if self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                self._again = True
                self._poke.set()
                return
            self._again = False
            self._thread = threading.Thread(target=self._run, name="smelt-hub-jobs", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Take no further job. One that runs is left alone: it ends with the process, and is taken up by the next."""
        self._stop.set()
        self._poke.set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def wait_for(self, number: int) -> None:
        """Until a job is over, here or in another process, or no further one is taken here."""
        while not self._stop.is_set() and find_job(self._store, number).status in _OPEN:
            self._stop.wait(_STEP)

    def _run(self) -> None:
        background()
        while not self._stop.is_set():
            later = True  # a database that is away for a moment comes back
            with contextlib.suppress(SmeltError):
                self._write_ends()
                while not self._stop.is_set() and (job := self._claim()) is not None:
                    self._do(*job)
                    self._write_ends()
                later = self._stays or self._is_work()
            if later:
                self._poke.wait(_PAUSE)
                self._poke.clear()
                continue
            with self._lock:
                if not self._again:
                    self._thread = None
                    return
                self._again = False

    def _claim(self) -> tuple[int, int, str] | None:
        """The next job: its number, which attempt this is, and the model."""
        if not self._is_work():  # a look costs nobody anything, a transaction that writes does
            return None
        with self._store.write_rows() as session:
            at = clock(session)
            held = select(JobRow).where(JobRow.status == "running").with_for_update(skip_locked=True)
            for old in session.scalars(held):
                if self._is_dead(old, at):
                    _give_up(old, at)
            session.flush()
            first = select(JobRow).where(JobRow.status == "waiting").order_by(JobRow.id).limit(1)
            row = session.scalar(first.with_for_update(skip_locked=True))
            if row is None:
                return None
            row.status, row.owner, row.attempts = "running", self._owner, row.attempts + 1
            row.started = row.beat = at
            row.done, row.error = 0, ""
            return row.id, row.attempts, row.model

    def _is_dead(self, row: JobRow, at: datetime) -> bool:
        host, pid, place = row.owner.split(":")[:3] if row.owner.count(":") == 3 else ("", "", "")
        if row.owner == self._owner:
            return True  # asked between two jobs: it was claimed, but nobody knew, or its end is not written down
        here = (host, place) == (socket.gethostname(), _place()) and place != ""
        if here and pid.isdigit() and not _lives(int(pid)):
            return True
        return row.beat is None or at - row.beat > _SILENCE

    def _do(self, number: int, attempt: int, model: str) -> None:
        over, wished = threading.Event(), threading.Event()
        words = (number, attempt, over, wished)
        beating = threading.Thread(target=self._beat, args=words, name="smelt-hub-beat", daemon=True)
        beating.start()
        status, error = "done", ""
        try:
            self._work(model, self._noter(number, attempt, wished))
        except JobCancelled as wish:
            status, error = "cancelled", str(wish)
        except SmeltError as failure:
            status, error = "failed", str(failure)
        except Exception as failure:  # a job may fail in any library; the service must go on
            status, error = "failed", f"{type(failure).__name__}: {failure}"
        finally:
            over.set()
            beating.join()
        self._ends[number, attempt] = {"status": status, "error": error}

    def _write_ends(self) -> None:
        for (number, attempt), end in list(self._ends.items()):
            with self._store.write_rows() as session:
                self._note(session, number, attempt, **end, finished=clock(session))
            del self._ends[number, attempt]

    def _is_work(self) -> bool:
        """Whether a job is waiting, or running anywhere."""
        with self._store.read() as session:
            return session.scalar(select(JobRow.id).where(JobRow.status.in_(_OPEN)).limit(1)) is not None

    def _noter(self, number: int, attempt: int, wished: threading.Event) -> Progress:
        last = 0.0

        def note(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > _STEP or done == total:
                last = time.monotonic()
                with contextlib.suppress(SmeltError), self._store.write_rows() as session:  # the work counts
                    if not self._note(session, number, attempt, done=done, total=total):
                        wished.set()
            if wished.is_set():
                raise JobCancelled(_CANCELLED)

        return note

    def _beat(self, number: int, attempt: int, over: threading.Event, wished: threading.Event) -> None:
        while not over.wait(_BEAT):
            with contextlib.suppress(SmeltError), self._store.write_rows() as session:
                if not self._note(session, number, attempt, beat=clock(session)):
                    wished.set()

    def _note(self, session: Session, number: int, attempt: int, **values: object) -> bool:
        """Write something of a job of ours; False if it is to end: cancelled, or somebody else's by now."""
        ours = (JobRow.id == number, JobRow.owner == self._owner, JobRow.attempts == attempt)
        session.execute(update(JobRow).where(*ours, JobRow.status == "running").values(**values))
        return session.scalar(select(JobRow.id).where(*ours, JobRow.cancelled.is_(False))) is not None


def _give_up(row: JobRow, at: datetime) -> None:
    """A job whose process died: for the next worker, unless it was cancelled or is what they die of."""
    if row.cancelled:
        _end(row, "cancelled", _CANCELLED, at)
    elif row.attempts >= _ATTEMPTS:
        _end(row, "failed", f"the process that did it ended {row.attempts} times", at)
    else:
        row.status, row.error, row.finished = "waiting", "", None


@functools.cache
def _place() -> str:
    """Where the numbers of processes mean the same: this start of this machine, and this container of it."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{start}/{os.readlink('/proc/self/ns/pid').partition(':')[2].strip('[]')}"
    except OSError:  # no Linux; the lease alone tells
        return ""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
