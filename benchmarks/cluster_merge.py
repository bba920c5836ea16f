"""The same merge by one process, and by one and two workers of every executor: times, and what a unit costs.

    python benchmarks/cluster_merge.py [--size 0.48b] [--repeat 3] [--alone] [-o results/cluster_merge.json]

Each run is a process of its own, in turns; the number is the shortest of all turns, beside that of one process with one
thread in the same turns. A worker has one thread. Inputs are in the page cache. Every run hashes its inputs, as a first
merge does. The Ray cluster is there before (two processors); Slurm's queue is submitit's own, on this machine. CPU
seconds are those of the driver and the processes that it has started, which workers of Ray and Slurm are not. What a
unit costs is how much more a merge takes that is cut into many small units, in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkpoints import SIZES, ensure
from provenance import provenance
from result_file import save, say
from tools import find_smelt

METHODS = ("task_arithmetic", "ties")
WAYS: dict[str, dict[str, Any]] = {
    "one process, 1 thread": {"threads": 1},
    "one process, 2 threads": {"threads": 2},
    "local, 1 worker": {"executor": "local", "workers": 1, "threads": 1},
    "local, 2 workers": {"executor": "local", "workers": 2, "threads": 1},
    "ray, 1 worker": {"executor": "ray:{address}", "workers": 1, "threads": 1},
    "ray, 2 workers": {"executor": "ray:{address}", "workers": 2, "threads": 1},
    "slurm, 1 worker": {"executor": "slurm:cluster=local,timeout_min=30", "workers": 1, "threads": 1},
    "slurm, 2 workers": {"executor": "slurm:cluster=local,timeout_min=30", "workers": 2, "threads": 1},
}
SMALL, LARGE = 2 << 20, 64 << 20
PROGRAM = """
import json, resource, sys
import smelt
from smelt.engine.cluster import driver
words = json.loads(sys.argv[1])
unit = words.pop("unit", None)
if unit:
    driver.unit_size = lambda bytes_in: unit
planned = []
plan = driver.ClusterExecutor._plan_job
driver.ClusterExecutor._plan_job = lambda self, *a, **w: planned.append(1) or plan(self, *a, **w)
done = smelt.merge(**words)
peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = sum(one.ru_utime + one.ru_stime for one in spent)
print(json.dumps({"seconds": done.seconds, "cpu_s": cpu, "peak_rss": peak, "jobs": len(planned)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="0.48b", choices=SIZES)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--alone", action="store_true", help="without Ray and Slurm")
    parser.add_argument("--work", type=Path, default=Path(".bench"))
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    work = given.work.resolve()
    folder = work / f"checkpoints-{given.size}-two"
    ensure(folder, replace(SIZES[given.size], fine_tunes=2))
    words = {"models": [str(folder / "ft1"), str(folder / "ft2")], "base": str(folder / "base")}
    found: dict[str, Any] = {"provenance": provenance([find_smelt(None)], 0), "size": given.size, "methods": {}}
    cluster = None if given.alone else start_ray()
    try:
        for method in given.methods:
            address = cluster.address if cluster is not None else None
            found["methods"][method] = times({**words, "method": method}, work, address, given.repeat)
            save(given.output, found)
        found["units"] = cost_of_units({**words, "method": "task_arithmetic"}, work, given.repeat)
        save(given.output, found)
    finally:
        if cluster is not None:
            cluster.shutdown()
    json.dump(found, sys.stdout, indent=1)


def start_ray() -> Any:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    words = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
    return Cluster(initialize_head=True, head_node_args=words)


def times(words: dict[str, Any], work: Path, address: str | None, repeat: int) -> dict[str, Any]:
    ways = {way: more for way, more in WAYS.items() if address is not None or way.startswith(("one", "local"))}
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(repeat):
        for way, more in ways.items():
            more = {key: one.format(address=address) if isinstance(one, str) else one for key, one in more.items()}
            runs[way].append(run({**words, **more}, work))
            say(f"{words['method']}, {way}: {runs[way][-1]['seconds']:.2f} s")
    alone = min(one["seconds"] for one in runs["one process, 1 thread"])
    return {
        way: {
            "seconds": min(one["seconds"] for one in some),
            "of_one_thread": min(one["seconds"] for one in some) / alone,
            "cpu_s": min(one["cpu_s"] for one in some),
            "driver_rss": max(one["peak_rss"] for one in some),
            "jobs": some[0]["jobs"],
        }
        for way, some in runs.items()
    }


def cost_of_units(words: dict[str, Any], work: Path, repeat: int) -> dict[str, Any]:
    inline = {**words, "executor": "inline", "threads": 1}
    runs = {unit: [run({**inline, "unit": unit}, work) for _ in range(repeat)] for unit in (SMALL, LARGE)}
    few, many = (min(one["cpu_s"] for one in runs[unit]) for unit in (LARGE, SMALL))
    more = runs[SMALL][0]["jobs"] - runs[LARGE][0]["jobs"]
    return {"jobs": [runs[SMALL][0]["jobs"], runs[LARGE][0]["jobs"]], "cpu_s_each": (many - few) / max(1, more)}


def run(words: dict[str, Any], work: Path) -> dict[str, Any]:
    """One merge by a process that has seen nothing."""
    out, cache = work / "out", work / "cache"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, "-c", PROGRAM, json.dumps({**words, "out": str(out)})]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "SMELT_CACHE": str(cache)}
    )
    shutil.rmtree(out)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
