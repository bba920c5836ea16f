"""Worker processes on this machine. They live as long as the run, so that what a job loaded serves the next one.

Each is a fresh interpreter that talks in lines of JSON: a job in on stdin, an answer out on stdout. It has a session
of its own, so that Ctrl-C reaches the run alone, which then ends its workers; and it ends by itself when stdin does,
which is when the run is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

from smelt.caller import shell_mark
from smelt.files.remote_code import is_trusted
from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.worker import thread_words, threads_each

__all__ = ["LocalExecutor"]

_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.stdin.readline()); import smelt.jobs.worker as w; w.serve()"


class LocalExecutor:
    """`workers` processes, each started when there is a job for it."""

    def __init__(self, workers: int = 1):
        self._workers = workers
        self._idle: list[_Worker] = []
        self._busy: dict[int, _Worker] = {}
        self._finished: queue.Queue[WorkerAnswer] = queue.Queue()

    @property
    def workers(self) -> int:
        return self._workers

    def start(self) -> None:
        self._finished = queue.Queue()

    def submit(self, ticket: int, job: Job) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._finished, threads_each(self._workers))
        self._busy[ticket] = worker
        worker.give(ticket, job)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        try:
            finished = self._finished.get(timeout=seconds)
        except queue.Empty:
            return None
        worker = self._busy.pop(finished.ticket, None)
        if worker is None:  # it was dropped when its answer was on the way
            return None
        if finished.answer is not None:
            self._idle.append(worker)
            return finished
        return finished._replace(death=worker.bury())

    def drop(self, ticket: int) -> None:
        worker = self._busy.pop(ticket, None)
        if worker is not None:
            worker.bury()

    def stop(self) -> None:
        for worker in (*self._idle, *self._busy.values()):
            worker.bury()
        self._idle.clear()
        self._busy.clear()


class _Worker:
    """One process, and the thread that listens to it."""

    def __init__(self, finished: queue.Queue[WorkerAnswer], threads: int):
        self._finished = finished
        self._ticket: int | None = None
        self._ended = False
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **thread_words(threads), **shell_mark()},
            start_new_session=True,
        )
        self._say(sys.path)
        threading.Thread(target=self._listen, daemon=True, name="smelt-worker").start()

    def give(self, ticket: int, job: Job) -> None:
        with self._lock:
            self._ticket = ticket
            if self._ended:
                self._finished.put(WorkerAnswer(ticket, None))
                return
        self._say([job.call, job.arguments, is_trusted()])

    def bury(self) -> str:
        """End the process if it has not ended, and say how it did."""
        with contextlib.suppress(OSError):  # what it started (a merge in a process of its own) ends with it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                _close(pipe)
        if code >= 0:
            return f"it ended with {code}"
        names = {one.value: one.name for one in signal.Signals}
        hint = ", as a process is when memory runs out" if -code == signal.SIGKILL else ""
        return f"it was killed by {names.get(-code, f'signal {-code}')}{hint}"

    def _say(self, words: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended; the listening thread tells
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                answer = json.loads(line)
                with self._lock:
                    ticket, self._ticket = self._ticket, None
                if ticket is not None:
                    self._finished.put(WorkerAnswer(ticket, answer))
        except (OSError, ValueError):
            pass  # the pipe was closed, or the last line is torn
        with self._lock:
            self._ended = True
            if self._ticket is not None:
                self._finished.put(WorkerAnswer(self._ticket, None))


def _close(pipe: Any) -> None:
    with contextlib.suppress(OSError, ValueError):  # something was left in its buffer that nobody will read
        pipe.close()
