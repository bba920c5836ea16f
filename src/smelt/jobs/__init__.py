"""Jobs: pure pieces of work in, results out, each computed once, wherever there is a machine for it.

A job is a function by its name and plain arguments. Its result is found by what it is (`store`), so a second run
computes nothing; it is made by an executor (`inline`, `local`, `ray`, `slurm`, or one's own). A worker that dies costs
its job, not the run. This room knows nothing of models: suites, studies and measurements bring their own functions.
"""

from __future__ import annotations

from smelt.jobs.executor import EXECUTORS, Executor, find_executor
from smelt.jobs.failure import JobFailed, WorkerDied
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.jobs.store import Store

__all__ = ["EXECUTORS", "Done", "Executor", "Job", "JobFailed", "Store", "WorkerDied", "find_executor", "run_jobs"]
