"""Jobs: labelling in the background, one at a time in each process, with its progress in the store.

A running job says every few seconds that it is alive. One that has not for a while belongs to a process that died: it
is taken up again by the next worker, and given up after three attempts. So a worker with nothing to do looks again as
long as a job is running elsewhere: its process may yet die.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select, update

from smelt.errors import RecipeError, SmeltError
from smelt.hub.models.cards import LabelJob, Progress, record
from smelt.hub.store.schema import JobRow, now
from smelt.hub.store.store import HubStore

__all__ = ["Worker", "background", "find_job", "job_rows", "queue_job"]

_BEAT = 5.0
"""Seconds between two signs of life."""
_SILENCE = timedelta(seconds=30)
_ATTEMPTS = 3
_STEP = 0.3
"""Seconds between two notes of progress."""
_PAUSE = 5.0
"""Seconds before a worker looks again."""
_NICE = 5


def background() -> None:
    """From now on this thread, and those that it starts, yield to threads that answer somebody."""
    if sys.platform == "linux":  # elsewhere the number of a thread is none of a process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def queue_job(store: HubStore, kind: str, model: str) -> int:
    """A new job; the one that is waiting or running for the same model, if there is one."""
    with store.write() as session:
        open_ = select(JobRow.id).where(
            JobRow.kind == kind, JobRow.model == model, JobRow.status.in_(("waiting", "running"))
        )
        if (old := session.scalar(open_)) is not None:
            return old
        row = JobRow(kind=kind, model=model)
        session.add(row)
        session.flush()
        return row.id


def job_rows(store: HubStore, model: str | None = None) -> list[LabelJob]:
    """All jobs, the newest first."""
    with store.read() as session:
        query = select(JobRow).order_by(JobRow.id.desc())
        return [
            record(LabelJob, row)
            for row in session.scalars(query if model is None else query.where(JobRow.model == model))
        ]


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
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._again, self._poke = False, threading.Event()
        self._ends: dict[int, dict[str, object]] = {}
        """How jobs ended, until that is written down."""

    def wake(self) -> None:
        """There may be something to do."""
        with self._lock:
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
        while not self._stop.is_set() and find_job(self._store, number).status in ("waiting", "running"):
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
                later = self._others_work()
            if later:
                self._poke.wait(_PAUSE)
                self._poke.clear()
                continue
            with self._lock:
                if not self._again:
                    self._thread = None
                    return
                self._again = False

    def _claim(self) -> tuple[int, str] | None:
        with self._store.write() as session:
            for old in session.scalars(select(JobRow).where(JobRow.status == "running")):
                if self._is_dead(old):
                    tired = old.attempts >= _ATTEMPTS
                    old.status = "failed" if tired else "waiting"
                    old.error = f"the process that did it ended {old.attempts} times" if tired else ""
                    old.finished = now() if tired else None
            session.flush()
            row = session.scalar(select(JobRow).where(JobRow.status == "waiting").order_by(JobRow.id).limit(1))
            if row is None:
                return None
            row.status, row.owner, row.attempts = "running", self._owner, row.attempts + 1
            row.started = row.beat = now()
            row.done, row.error = 0, ""
            return row.id, row.model

    def _is_dead(self, row: JobRow) -> bool:
        host, pid = row.owner.split(":")[:2] if row.owner.count(":") == 2 else ("", "")
        if row.owner == self._owner:
            return True  # asked between two jobs: it was claimed, but nobody knew, or its end is not written down
        if host == socket.gethostname() and pid.isdigit() and not _lives(int(pid)):
            return True
        return row.beat is None or now() - row.beat > _SILENCE

    def _do(self, number: int, model: str) -> None:
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(number, over), name="smelt-hub-beat", daemon=True)
        beating.start()
        error = ""
        try:
            self._work(model, self._noter(number))
        except SmeltError as failure:
            error = str(failure)
        except Exception as failure:  # a job may fail in any library; the service must go on
            error = f"{type(failure).__name__}: {failure}"
        finally:
            over.set()
            beating.join()
        self._ends[number] = {"status": "failed" if error else "done", "error": error, "finished": now()}

    def _write_ends(self) -> None:
        for number, end in list(self._ends.items()):
            self._note(number, **end)
            del self._ends[number]

    def _others_work(self) -> bool:
        """Whether a job is running in another process."""
        with self._store.read() as session:
            return session.scalar(select(JobRow.id).where(JobRow.status == "running").limit(1)) is not None

    def _noter(self, number: int) -> Progress:
        last = 0.0

        def note(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > _STEP or done == total:
                last = time.monotonic()
                with contextlib.suppress(SmeltError):  # the work counts, not the note
                    self._note(number, done=done, total=total)

        return note

    def _beat(self, number: int, over: threading.Event) -> None:
        while not over.wait(_BEAT):
            with contextlib.suppress(SmeltError):
                self._note(number, beat=now())

    def _note(self, number: int, **values: object) -> None:
        with self._store.write() as session:
            session.execute(update(JobRow).where(JobRow.id == number, JobRow.owner == self._owner).values(**values))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
