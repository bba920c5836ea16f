"""What happens inside a worker: find the function, call it, and answer in plain data, whatever happens."""

from __future__ import annotations

import copy
import importlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.errors import RecipeError, unknown
from smelt.files.remote_code import trusting
from smelt.jobs.failure import pack_error
from smelt.jobs.job import plain
from smelt.system.process import usable_cores

__all__ = ["cores", "perform", "perform_with", "serve", "thread_words", "threads_each"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def perform(call: str, arguments: Mapping[str, Any], trust_remote_code: bool = False) -> dict[str, Any]:
    """{result, seconds}, or {failure, seconds} where the function raised.

    `trust_remote_code` is whether the caller allows it (`is_trusted()` there); it is no part of what a job is.
    """
    began = time.perf_counter()
    answer: dict[str, Any]
    try:
        function = _find(call)
        with trusting(trust_remote_code):
            answer = {"result": plain(function(**copy.deepcopy(dict(arguments))), f"the result of {call}")}
    except (Exception, SystemExit) as error:
        answer = {"failure": pack_error(error)}
    return {**answer, "seconds": time.perf_counter() - began}


def perform_with(
    threads: int, path: Sequence[str], call: str, arguments: Mapping[str, Any], trust_remote_code: bool = False
) -> dict[str, Any]:
    """The same in a process of somebody else's (Ray, Slurm).

    It is told first how many cores it has, and where the caller finds its modules, as far as it has no such place.
    """
    os.environ.update(thread_words(threads))
    sys.path += [place for place in path if place not in sys.path]
    return perform(call, arguments, trust_remote_code)


def threads_each(workers: int) -> int:
    """The cores of one of so many workers, at least one."""
    return max(1, cores() // max(1, workers))


def cores() -> int:
    """Those that this process may use: of the machine, and of what its own environment was told (a worker's is)."""
    found = usable_cores()
    told = os.environ.get(_THREADS[0], "")
    return min(found, int(told)) if told.isdigit() and int(told) else found


def thread_words(threads: int) -> dict[str, str]:
    """What the environment has to say before torch and its like are loaded."""
    return dict.fromkeys(_THREADS, str(threads))


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


def _find(call: str) -> Callable[..., Any]:
    module, _, name = call.partition(":")
    home = importlib.import_module(module)
    function = getattr(home, name, None)
    if not callable(function):
        raise RecipeError(f"{module}: {unknown('function', name, [one for one in vars(home) if one[0] != '_'])}")
    return function  # type: ignore[no-any-return]
