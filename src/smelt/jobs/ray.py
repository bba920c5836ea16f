"""Jobs on a Ray cluster: one that runs already, one at an address, or one that is started on this machine.

Ray is told never to repeat a task: whether a job is tried again is the run's decision, and counted there. Ray keeps
its processes between tasks, so what a job loaded may serve the next one.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from smelt.errors import MissingExtra, SmeltError
from smelt.files.remote_code import is_trusted
from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.worker import cores, perform_with, threads_each

__all__ = ["RayExecutor"]

_PATIENCE = 10.0


class RayExecutor:
    """`workers` tasks at a time; `options` are those of a Ray task (`num_cpus`, `num_gpus`, `resources`)."""

    def __init__(self, workers: int = 1, *, address: str | None = None, **options: Any):
        self._workers, self._address = workers, address
        self._threads = int(options.get("num_cpus") or threads_each(workers))
        self._options = {"num_cpus": self._threads, **options, "max_retries": 0}
        self._tickets: dict[Any, int] = {}
        self._task: Any = None
        self._own = False

    @property
    def workers(self) -> int:
        return self._workers

    def start(self) -> None:
        ray = _ray()
        self._own = not ray.is_initialized()
        if self._own:
            self._begin(ray)
        self._task = ray.remote(**self._options)(perform_with)

    def submit(self, ticket: int, job: Job) -> None:
        words = (self._threads, sys.path, job.call, dict(job.arguments), is_trusted())
        self._tickets[self._task.remote(*words)] = ticket

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        ray = _ray()
        found, _ = ray.wait(list(self._tickets), num_returns=1, timeout=seconds)
        if not found:
            return None
        (ready,) = found
        ticket = self._tickets.pop(ready)
        try:
            return WorkerAnswer(ticket, ray.get(ready))
        except ray.exceptions.RayError as error:
            return WorkerAnswer(ticket, None, f"Ray says {type(error).__name__}: {str(error).strip().splitlines()[0]}")

    def drop(self, ticket: int) -> None:
        for task in [task for task, mine in self._tickets.items() if mine == ticket]:
            del self._tickets[task]
            _ray().cancel(task, force=True)

    def stop(self) -> None:
        ray = _ray()
        if not ray.is_initialized():
            return
        for task in self._tickets:
            ray.cancel(task, force=True)
        self._tickets.clear()
        if self._own:
            ray.shutdown()

    def _begin(self, ray: Any) -> None:
        """Join the cluster at the address, or start one here that has room for every worker."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        words: dict[str, Any] = {"address": self._address, "log_to_driver": False}
        if self._address is None:
            words |= {"num_cpus": max(cores(), self._workers * self._threads), "include_dashboard": False}
            if not os.environ.get("RAY_ADDRESS"):
                words["address"] = "local"  # else Ray joins whatever somebody has started on this machine
        try:
            _knock(self._address)
            ray.init(**words)
        except (OSError, RuntimeError, ValueError) as error:
            where = f"at {self._address}" if self._address else "on this machine"
            raise SmeltError(f"no Ray cluster {where}: {str(error).strip().splitlines()[0]}") from None


def _knock(address: str | None) -> None:
    """Raise where nobody listens at an address; Ray itself would go on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("the executor 'ray' needs Ray: pip install 'smelt[cluster]'") from None
    return ray
