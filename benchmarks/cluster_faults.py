"""Merges by workers of which something dies or hangs at a random moment: the bytes, and what it cost.

    python benchmarks/cluster_faults.py [worker node driver hang] [--trials 5] [-o results/cluster_faults.json]

`worker` kills a worker process (kill -9), `hang` stops one without ending it (SIGSTOP), `driver` kills the process
that hands out the work, and another goes on with --resume; all with two worker processes. `node` kills one of three
nodes of a Ray cluster on this machine, each with one processor, and a new one joins for the next trial; jobs wait for
a moment before they begin, so that some are under way. Every output is compared with that of one process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import smelt
from provenance import provenance
from result_file import save, say
from smelt.engine.cluster import driver
from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.local import LocalExecutor
from smelt.jobs.ray import RayExecutor
from tools import find_smelt

KINDS = ("worker", "node", "driver", "hang")
SHAPES = {f"layers.{n}.{part}.weight": (256, 1024) for n in range(12) for part in ("up", "down")} | {
    "norm.weight": (99,)
}
METHODS: tuple[Any, ...] = ("ties", "average", {"slerp": {"t": 0.3}}, [{"dare": {"density": 0.5}}, "ties"])
UNIT = 1 << 20

DRIVER = """
import os, signal, smelt
from smelt.engine.cluster import driver
from smelt.engine.sink.output import Journal
driver.unit_size = lambda bytes_in: {unit}
note, noted = Journal.done, []
def done(self, *keys):
    note(self, *keys)
    noted.extend(keys)
    if len(noted) == {after}:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.done = done
smelt.merge(**{words!r}, executor="local", workers=2)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path(".bench/faults"))
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    work = given.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    os.environ["SMELT_CACHE"] = str(work / "cache")
    driver.unit_size = lambda bytes_in: UNIT
    write_models(work, given.seed)
    found: dict[str, Any] = {"provenance": provenance([find_smelt(None)], given.seed), "trials": []}
    draw = random.Random(given.seed)
    try:
        for kind in given.kinds:
            runner = Runner(work, draw)
            for _ in range(given.trials):
                found["trials"].append(runner.trial(kind))
                say(json.dumps(found["trials"][-1]))
                save(given.output, found)
            runner.close()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    wrong = [one for one in found["trials"] if not one["equal"]]
    sys.exit(f"{len(wrong)} outputs differ" if wrong else 0)


def write_models(work: Path, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    base = {key: torch.randn(shape, generator=draw) for key, shape in SHAPES.items()}
    for name in ("base", "a", "b"):
        (work / name).mkdir(parents=True)
        tensors = {key: one + 0.01 * torch.randn(one.shape, generator=draw) for key, one in base.items()}
        save_file({key: one.bfloat16() for key, one in tensors.items()}, work / name / "model.safetensors")
        (work / name / "config.json").write_text('{"model_type": "pico"}')


class Runner:
    """Trials of one kind, in a folder."""

    def __init__(self, work: Path, draw: random.Random):
        self.work, self.draw = work, draw
        self.cluster: Any = None
        self.nodes: list[Any] = []

    def trial(self, kind: str) -> dict[str, Any]:
        method = self.draw.choice(METHODS)
        words = {
            "models": [str(self.work / "a"), str(self.work / "b")],
            "base": None if "slerp" in str(method) else str(self.work / "base"),
            "method": method,
            "shard_size": "3MB",
            "out": str(self.work / "out"),
        }
        smelt.merge(**words)
        expected = files(self.work / "out")
        shutil.rmtree(self.work / "out")
        after = self.draw.randrange(1, len(SHAPES))
        began = time.monotonic()
        told = getattr(self, f"_{kind}")(words, after)
        seconds = time.monotonic() - began
        equal = files(self.work / "out") == expected
        shutil.rmtree(self.work / "out")
        left = [path.name for path in self.work.iterdir() if path.name.startswith(".out")]
        return {
            "kind": kind,
            "method": str(method),
            "after": after,
            **told,
            "seconds": seconds,
            "equal": equal and not left,
        }

    def _worker(self, words: dict[str, Any], after: int) -> dict[str, Any]:
        team = Struck(after, signal.SIGKILL)
        smelt.merge(**words, executor=team)
        return {"deaths": team.deaths, "jobs": team.given}

    def _hang(self, words: dict[str, Any], after: int) -> dict[str, Any]:
        team = Struck(after, signal.SIGSTOP)
        smelt.merge(**words, executor=team)
        return {"deaths": team.deaths, "jobs": team.given}

    def _driver(self, words: dict[str, Any], after: int) -> dict[str, Any]:
        program = DRIVER.format(unit=UNIT, after=after, words=words)
        ended = subprocess.run([sys.executable, "-c", program], timeout=600).returncode
        done = smelt.merge(**words, executor="local", workers=2, resume=True)
        return {"driver_ended_with": ended, "resumed": done.resumed}

    def _node(self, words: dict[str, Any], after: int) -> dict[str, Any]:
        self._join()
        team = Bereft(after, self)
        usual, driver._PAUSES = driver._PAUSES, (0.5, *driver._PAUSES[1:])
        try:
            smelt.merge(**words, executor=team)
        finally:
            driver._PAUSES = usual
        return {"deaths": team.deaths, "jobs": team.given}

    def _join(self) -> None:
        """Three nodes beside the head, which works on nothing."""
        from ray.cluster_utils import Cluster

        if self.cluster is None:
            os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
            head = {"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
            self.cluster = Cluster(initialize_head=True, head_node_args=head)
        while len(self.nodes) < 3:
            with contextlib.suppress(Exception):  # Ray gives up after half a minute, which a busy machine may need
                self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=80 << 20))
        self.cluster.wait_for_nodes(timeout=300)

    def crash(self, node: Any) -> None:
        """All processes of a node end at once, its workers too, as when its machine is switched off."""
        for one in node.all_processes["raylet"]:
            tree = [one.process.pid]
            for pid in tree:
                with contextlib.suppress(OSError):
                    tree += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            for pid in tree:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.shutdown()


class Struck(LocalExecutor):
    """Two worker processes, one of which gets a signal when so many jobs are answered."""

    def __init__(self, after: int, what: signal.Signals):
        super().__init__(2)
        self.after, self.what = after, what
        self.given = self.answered = self.deaths = 0

    def submit(self, ticket: int, job: Job) -> None:
        super().submit(ticket, job)
        self.given += 1
        if self.answered >= self.after >= 0:
            self.after = -1
            os.kill(self._busy[ticket]._process.pid, self.what)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        answer = super().wait(seconds)
        self.answered += answer is not None
        self.deaths += answer is not None and answer.answer is None
        return answer


class Bereft(RayExecutor):
    """Three workers on Ray, one of whose nodes is killed when so many jobs are answered."""

    def __init__(self, after: int, runner: Runner):
        super().__init__(3, address=runner.cluster.address, num_cpus=1)
        self.after, self.runner = after, runner
        self.given = self.answered = self.deaths = 0

    def submit(self, ticket: int, job: Job) -> None:
        super().submit(ticket, job)
        self.given += 1

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        if self.answered >= self.after >= 0:
            self.after = -1
            self.runner.crash(self.runner.nodes.pop(0))
        answer = super().wait(seconds)
        self.answered += answer is not None
        self.deaths += answer is not None and answer.answer is None
        return answer


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


if __name__ == "__main__":
    main()
