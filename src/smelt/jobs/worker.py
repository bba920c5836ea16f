"""The program of a local worker: lines of JSON in and out until stdin ends."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading

from smelt.jobs.perform import perform

__all__ = ["serve"]


def serve() -> None:
    """Answer jobs. What a job prints goes to stderr: stdout belongs to the answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while True:
        answers.write(json.dumps(perform(*json.loads(jobs.get()))) + "\n")
        answers.flush()


def _read(jobs: queue.SimpleQueue[str]) -> None:
    """Take jobs in; when there can be no more, the run is over or dead, and so is the job under way."""
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)
