"""What every stage costs beside averaging: CPU seconds of a merge of the same models, and the memory that it works in.

    python benchmarks/method_costs.py [--repeat 3] [--only NAME ...] [-o OUT]

The models are the eight experts of clip8 (or as many as a stage takes), merged on one thread, with the stage's own
defaults; steps, bases and wrappers stand beside the plain mean of the changes. Stages that read statistics are left
out: what they cost is looking at data, which the rows of the suites have. Seconds are of this process's CPU, the least
of the repeats, after one merge that loads what is needed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import smelt
from provenance import provenance
from result_file import save, say
from smelt.methods import Stage, stages
from smelt.tasks.groups import GROUPS
from smelt.testing.trial import pipeline_of
from tools import find_smelt

BASE = "zoo:clip-tiny"
NAMES = GROUPS["clip8"]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--repeat", type=int, default=3)
    words.add_argument("--only", nargs="*", help="these stages; the others keep their numbers of OUT")
    words.add_argument("-o", "--out", type=Path)
    given = words.parse_args()
    found: dict[str, Any] = {"provenance": provenance([find_smelt(None)], 0), "pool": list(NAMES), "stages": {}}
    if given.only and given.out and given.out.is_file():
        found["stages"] = json.loads(given.out.read_text())["stages"]
    means: dict[int, float] = {}
    for stage in stages.values():
        if stage.statistics or (given.only and stage.name not in given.only):
            continue
        count = stage.models[1] or len(NAMES)
        if count not in means:
            means[count] = cpu_seconds(stages["average"], count, given.repeat)
        seconds = means[count] if stage.name == "average" else cpu_seconds(stage, count, given.repeat)
        plan = smelt.plan(recipe(stage, count), threads=1)
        found["stages"][stage.name] = {
            "models": count,
            "cpu_s": round(seconds, 3),
            "average_cpu_s": round(means[count], 3),
            "passes": plan.passes,
            "work_bytes": plan.work_memory,
        }
        say(f"{stage.name:20} {count} models  {seconds:7.2f} s  {seconds / means[count]:6.1f} x")
        save(given.out, found)


def recipe(stage: Stage, count: int) -> dict[str, Any]:
    models = {name: f"{BASE}-{name}" for name in NAMES[:count]}
    merge = [{name: values} for name, values in pipeline_of(stage, {})]
    return {"pool": {"base": BASE, "models": models}, "merge": merge, "include": ["vision_model.*"]}


def cpu_seconds(stage: Stage, count: int, repeat: int) -> float:
    """Of one merge to a folder."""
    taken = []
    for _ in range(1 + repeat):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.process_time()
            smelt.merge(recipe(stage, count), out=Path(folder) / "out", threads=1)
            taken.append(time.process_time() - begun)
    return min(taken[1:])


if __name__ == "__main__":
    main()
