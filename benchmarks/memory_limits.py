"""What merges take of memory under several limits, and what ways to a rank cost.

    python benchmarks/memory_limits.py limits|ways [--tiny] [--repeat 2] [-o OUT]

Whole processes. `limits` has the peak of anonymous memory of `smelt merge --memory LIMIT`, less that of `smelt
plan` for the same merge, beside the number that the plan prints; every limit must give the same bytes. `ways` has
the three ways in which ranks are found, in turns: brackets that hold what lies in them, brackets that count it, and
histograms. Models small enough for a benchmark would take the first way alone, so the other two are forced in the
process that is measured (ranks_by.py). Seconds are of the CPU, in and below the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from checkpoints import SIZES, Spec, ensure
from measure import Measurement, measure
from provenance import provenance
from result_file import save, say
from tools import find_smelt

METHODS = {
    "task_arithmetic": ("task_arithmetic",),
    "ties": ("ties", "density=0.2"),
    "breadcrumbs": ("breadcrumbs,task_arithmetic",),
    "breadcrumbs, ties": ("breadcrumbs,ties",),
    "sce": ("sce", "density=0.1"),
    "della, l1": ("della,task_arithmetic", "della.density=0.5", "della.rescale=l1"),
    "arcee_fusion": ("arcee_fusion",),
}
LIMITS = (None, "40MB", "20MB")
RANKED = ("ties", "breadcrumbs")
HERE = Path(__file__).parent
WAYS = ("held", "counted", "histograms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("limits", "ways"))
    parser.add_argument("--tiny", action="store_true", help="very small models: does it work?")
    parser.add_argument("--repeat", type=int, default=2, help="turns of the ways")
    parser.add_argument("--work", type=Path, default=Path(".bench"))
    parser.add_argument("--smelt", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    work, tool = given.work.resolve(), find_smelt(given.smelt)
    os.environ["SMELT_CACHE"] = str(work / "cache")  # hashes of inputs are known from the first merge on
    found: dict[str, Any] = {"provenance": provenance([tool], 0), given.what: []}
    sets = {"0.48b": SIZES["0.48b"], "0.1b-float32": replace(SIZES["0.1b"], dtype="float32")}
    if given.tiny:
        sets = {f"tiny-{name}": replace(SIZES["tiny"], dtype=spec.dtype) for name, spec in sets.items()}
    for number, (name, spec) in enumerate(sets.items()):
        folder = work / f"checkpoints-{name}-seed0"
        ensure(folder, spec)
        for method in METHODS if given.what == "limits" and number == 0 else ():
            for limit in LIMITS:
                found["limits"].append(limited(tool.executable, method, limit, folder, spec, work))
                save(given.output, found)
        for method in RANKED if given.what == "ways" else ():
            found["ways"] += by_every_way(method, folder, spec, work, given.repeat)
            save(given.output, found)


def limited(smelt: Path, method: str, limit: str | None, folder: Path, spec: Spec, work: Path) -> dict[str, Any]:
    """One merge within one limit."""
    words, out = words_of(method, folder, spec), work / "limited"
    words += ["--memory", limit] if limit else []
    one: dict[str, Any] = {"method": method, "limit": limit, "parameters": spec.parameters, "dtype": spec.dtype}
    planning = measure([smelt, "plan", *words, "--json"])
    if planning.error:
        say(f"{method}, {limit}: {planning.error}")
        return one | {"refused": planning.error}
    answer = subprocess.run([smelt, "plan", *words, "--json"], check=True, capture_output=True, text=True)
    plan = json.loads(answer.stdout)
    run = measure([smelt, "merge", *words, "-o", out, "--quiet"], output=out, inputs=[folder], keep=True)
    one |= {
        "planned_work_bytes": plan["work_memory"],
        "planned_peak_bytes": plan["peak_memory"],
        "peak_anon_bytes": run.peak_anon_bytes,
        "plan_anon_bytes": planning.peak_anon_bytes,
        "cpu_s": cpu(run),
        "sha256": weights_hash(out),
        "error": run.error,
    }
    shutil.rmtree(out, ignore_errors=True)
    took = run.peak_anon_bytes - planning.peak_anon_bytes
    say(f"{method}, {limit}: {took / 1e6:.0f} MB, planned {plan['work_memory'] / 1e6:.0f} MB, {cpu(run):.1f} s")
    return one


def by_every_way(method: str, folder: Path, spec: Spec, work: Path, repeat: int) -> list[dict[str, Any]]:
    """The ways in turns."""
    runs: dict[str, list[Measurement]] = {way: [] for way in WAYS}
    hashes: dict[str, str] = {}
    out = work / "limited"
    for _ in range(repeat):
        for way in WAYS:
            command = [sys.executable, HERE / "ranks_by.py", way, "merge", *words_of(method, folder, spec), "-o", out]
            runs[way].append(measure([*command, "--quiet"], output=out, inputs=[folder], keep=True))
            hashes[way] = weights_hash(out)
            shutil.rmtree(out, ignore_errors=True)
    facts = {"method": method, "parameters": spec.parameters, "dtype": spec.dtype}
    rows = [
        facts
        | {
            "way": way,
            "cpu_s": median(map(cpu, each)),
            "wall_s": median(run.wall_s for run in each),
            "read_bytes": each[-1].read_bytes,
            "peak_anon_bytes": max(run.peak_anon_bytes for run in each),
            "sha256": hashes[way],
            "error": " ".join(run.error for run in each).strip(),
        }
        for way, each in runs.items()
    ]
    say(f"{method}, {spec.dtype}: " + ", ".join(f"{row['way']} {row['cpu_s']:.1f} s" for row in rows))
    return rows


def words_of(method: str, folder: Path, spec: Spec) -> list[str]:
    """The options of a merge of all models, or of one where the method takes no more."""
    names, (stages, *values) = spec.models[1:], METHODS[method]
    models = names[:1] if method == "arcee_fusion" else names
    words = ["-m", stages, "--base", str(folder / "base")]
    words += [word for name in models for word in ("--model", f"{name}={folder / name}")]
    return words + [word for value in values for word in ("--set", value)]


def cpu(run: Measurement) -> float:
    return run.user_s + run.system_s


def weights_hash(folder: Path) -> str:
    """Of the bytes of all weights files."""
    hashed = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                hashed.update(block)
    return hashed.hexdigest()


if __name__ == "__main__":
    main()
