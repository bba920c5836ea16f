"""How a merge gains from threads: whole processes with 1, 2, 4, ... of them, first merges and later ones.

In: a size and methods. Out: Markdown on standard output and, with -o, a result file. Beside each number of threads
stands the time in which so many threads read all inputs and copy one model into as many files as the output has: what
no merge can go below. Inputs are in the page cache; every output is removed before it reaches the disk. A *first* merge
knows no hash of its inputs, a *later* one all.

    python benchmarks/threads.py [--size 3b] [--methods linear,ties] [--threads 1,2,4,8,16] [-o results/threads.json]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from checkpoints import SIZES, ensure
from provenance import provenance
from recipes import RECIPES, Recipe
from result_file import save
from tools import Tool, find_smelt

PIECE = 1 << 20
SHARD = 5_000_000_000
"""Bytes of an output's file, as merges have it by default."""


@dataclass(frozen=True)
class Row:
    """One method with so many threads; the least of all tries."""

    method: str
    threads: int
    floor_s: float
    first_s: float
    later_s: float
    first_cpu_s: float
    later_cpu_s: float
    plan_s: float


def main() -> int:
    args = _parse()
    work: Path = args.work.resolve()
    smelt = find_smelt(args.smelt)
    checkpoints = work / f"checkpoints-{args.size}-two-seed{args.seed}"
    ensure(checkpoints, replace(SIZES[args.size], seed=args.seed, fine_tunes=2))
    results: dict[str, object] = {"provenance": provenance([smelt], args.seed), "size": args.size}
    rows: list[Row] = []
    for method in args.methods:
        recipe = replace(RECIPES[method], models=("ft1", "ft2"))
        for threads in args.threads:
            rows.append(_row(recipe, threads, smelt, checkpoints, work, args.repeat))
            print(rows[-1], file=sys.stderr, flush=True)
            results["rows"] = [asdict(row) for row in rows]
            save(args.output, results)
    print(_table(rows))
    return 0


def _row(recipe: Recipe, threads: int, smelt: Tool, checkpoints: Path, work: Path, repeat: int) -> Row:
    config = recipe.write(work / "configs" / checkpoints.name / f"{recipe.method}.yaml", checkpoints)
    inputs = [path for name in recipe.inputs for path in sorted((checkpoints / name).glob("*.safetensors"))]
    out, cache = work / "out" / "threads", work / "threads-cache"
    times: dict[str, list[tuple[float, float]]] = {"first": [], "later": []}
    for _ in range(repeat):
        shutil.rmtree(cache, ignore_errors=True)
        for kind in times:
            command = [*smelt.merge(config, out), "--threads", str(threads)]
            times[kind].append(_timed(command, cache))
            shutil.rmtree(out)
    plan = min(_timed([smelt.executable, "plan", config], cache)[0] for _ in range(repeat))
    floor = min(_floor(inputs, work / "out", threads) for _ in range(repeat))
    first, later = min(times["first"]), min(times["later"])
    return Row(recipe.method, threads, floor, first[0], later[0], first[1], later[1], plan)


def _timed(command: list[str | Path], cache: Path) -> tuple[float, float]:
    """Seconds from start to end, and of processors."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"SMELT_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    subprocess.run([str(word) for word in command], check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _floor(inputs: list[Path], scratch: Path, threads: int) -> float:
    """Seconds to read all inputs, and to copy the first model into the files that an output has."""
    scratch.mkdir(parents=True, exist_ok=True)
    model = sum(path.stat().st_size for path in inputs if path.parent == inputs[0].parent)
    targets = [scratch / f"floor-{number}.tmp" for number in range(-(-model // SHARD))]
    sources = [os.open(path, os.O_RDONLY) for path in inputs]
    copies = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for path in targets]
    for copy in copies:
        os.posix_fallocate(copy, 0, model // len(copies))
    reads = [(source, at) for source, path in zip(sources, inputs, strict=True) for at in _pieces(path.stat().st_size)]
    writes = [(copy, at) for at in _pieces(model // len(copies)) for copy in copies]
    try:
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            buffers = [bytearray(16 * PIECE) for _ in range(threads)]
            list(pool.map(lambda job: os.preadv(job[0], [buffers[job[1] % threads]], job[1]), reads))
            list(pool.map(lambda job: os.pwrite(job[0], buffers[job[1] % threads], job[1]), writes))
        return time.perf_counter() - began
    finally:
        for descriptor in (*sources, *copies):
            os.close(descriptor)
        for target in targets:
            target.unlink()


def _pieces(size: int) -> range:
    return range(0, size, 16 * PIECE)


def _table(rows: list[Row]) -> str:
    lines = ["| merge | threads | floor | first | of the floor | later | first / later | plan |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        lines.append(
            f"| {row.method} | {row.threads} | {row.floor_s:.2f} s | {row.first_s:.2f} s | "
            f"{row.first_s / row.floor_s:.1f} | {row.later_s:.2f} s | {row.first_s / row.later_s:.2f} | "
            f"{row.plan_s:.2f} s |"
        )
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time merges with several numbers of threads.")
    parser.add_argument("--size", choices=SIZES, default="3b")
    parser.add_argument("--methods", default="linear,ties", help="comma-separated")
    parser.add_argument("--threads", default="1,2,4,8,16", help="comma-separated")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".bench"), help="checkpoints and outputs")
    parser.add_argument("--smelt", type=Path, help="a smelt executable (default: the one of this environment)")
    parser.add_argument("--seed", type=int, default=0, help="of the checkpoints")
    parser.add_argument("-o", "--output", type=Path, help="result file, e.g. results/threads.json")
    args = parser.parse_args()
    args.methods, args.threads = args.methods.split(","), [int(one) for one in args.threads.split(",")]
    return args


if __name__ == "__main__":
    sys.exit(main())
