"""How near methods that decompose matrices come to their floor: the operations they need at the speed of products.

    python benchmarks/matrix_floor.py [--models 2] [--size 0.48b] [--former SRC] [--whole FOLDER] [-o OUT]

Speeds of products and of symmetric decompositions come first, with one thread and with two. Then each method merges one
matrix of each shape of the model, on one thread as in a merge, with products measured right before and after:
the floor of a matrix is at their speed in the same minute. Times the number of such matrices, over the threads of
this machine, that is an estimate of the whole. Seconds are of this process's CPU, the least of the repeats. `--former`
times the methods of another checkout (its `src`) in turns, and says how far apart the results are. The second floor
takes the library's decompositions as they are: what would be left if only the rest were perfect. `--whole` merges
models with these shapes, of one layer unless told, as whole processes; memory is the same whatever the depth.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from checkpoints import SIZES, Spec, ensure, tensors
from matrix_operations import OPERATIONS, eigen, operations
from measure import measure
from provenance import provenance
from result_file import save, say
from smelt.formats.architecture.layout import Layout
from tools import find_smelt

HERE = Path(__file__).parents[1] / "src"
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--models", type=int, default=2)
    words.add_argument("--size", choices=SIZES, default="0.48b")
    words.add_argument("--methods", nargs="*", default=list(OPERATIONS), choices=OPERATIONS)
    words.add_argument("--repeat", type=int, default=2)
    words.add_argument("--former", type=Path, help="src of another checkout, timed in turns")
    words.add_argument("--whole", type=Path, metavar="FOLDER", help="merge whole models too; their files are made here")
    words.add_argument("--layers", type=int, default=1, help="of the whole models")
    words.add_argument("-o", "--out", type=Path)
    given = words.parse_args()
    spec = SIZES[given.size]
    cores = len(os.sched_getaffinity(0))
    found: dict[str, Any] = {
        "provenance": provenance([find_smelt(None)], 0),
        "size": given.size,
        "parameters": spec.parameters,
        "models": given.models,
        "threads": cores,
        "speeds": [speeds(threads) for threads in dict.fromkeys((1, cores))],
        "matrices": [],
        "methods": {},
        "whole": {},
    }
    torch.set_num_threads(1)
    now, former = methods_of(HERE), methods_of(given.former) if given.former else {}
    for (rows, columns), count in shapes(spec).items():
        draw = torch.Generator().manual_seed(0)
        deltas = torch.randn(given.models, rows, columns, generator=draw).mul_(spec.noise)
        for method in given.methods:
            row = {"method": method, "rows": rows, "columns": columns, "count": count}
            row |= timed(method, deltas, now[method], former.get(method), given.repeat)
            found["matrices"].append(row)
            found["methods"] = totals(found["matrices"], cores)
            times = row["cpu_s"] / row["floor_s"]
            say(f"{method:8} {rows} x {columns}: {row['cpu_s']:6.2f} s, {times:.2f} of the floor")
            save(given.out, found)
    for method, total in found["methods"].items():
        line = ", ".join(f"{name} {value:.1f}" for name, value in total.items())
        say(f"{method}: {line}")
    if given.whole:
        small = replace(spec, layers=given.layers, fine_tunes=given.models)
        ensure(given.whole, small)
        for method in given.methods:
            sources = {"now": HERE} | ({"former": given.former} if given.former else {})
            runs = {name: whole(method, given.whole, small, source) for name, source in sources.items()}
            found["whole"][method] = {"layers": given.layers} | runs
            say(f"{method}, whole: " + ", ".join(f"{name} {run['peak_anon_bytes']:,} B" for name, run in runs.items()))
            save(given.out, found)


def shapes(spec: Spec) -> Counter[tuple[int, ...]]:
    """Of the matrices that such methods treat, with how many there are."""
    return Counter(shape for name, shape in tensors(spec) if Layout.is_matrix(name, shape))


def speeds(threads: int) -> dict[str, Any]:
    """Billions of operations per second of products, and the seconds of decompositions; by the clock, if several."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    found: dict[str, Any] = {"threads": threads, "load": os.getloadavg()[0]}
    for name, dtype in DTYPES.items():
        found[f"{name}_gflops"] = round(product_speed(dtype, clock) / 1e9, 1)
    for size in (1024, 2048):
        matrix = torch.randn(size, size, dtype=torch.float64)
        lower = matrix @ matrix.mT
        found[f"eigen_{size}_s"] = round(least(lambda one=lower: torch.linalg.eigh(one), 2, clock), 3)
    return found


def product_speed(dtype: torch.dtype, clock: Callable[[], float] = time.process_time) -> float:
    matrix = torch.randn(2048, 2048, dtype=dtype)
    return 2 * 2048**3 / least(lambda: matrix @ matrix, 3, clock)


@functools.cache
def eigen_seconds(size: int) -> float:
    """Of all eigenvectors, which is what the library gives."""
    matrix = torch.randn(size, size, dtype=torch.float64)
    lower = matrix @ matrix.mT
    return least(lambda: torch.linalg.eigh(lower), 2)


def least(work: Callable[[], Any], repeat: int, clock: Callable[[], float] = time.process_time) -> float:
    taken = []
    for _ in range(repeat):
        begun = clock()
        work()
        taken.append(clock() - begun)
    return min(taken)


def timed(method: str, deltas: torch.Tensor, now: Any, former: Any, repeat: int) -> dict[str, Any]:
    """One matrix: floor, seconds now and before, and how far apart the results are."""
    calls = {"cpu_s": now} | ({"former_cpu_s": former} if former else {})
    seconds: dict[str, float] = dict.fromkeys(calls, float("inf"))
    fastest = dict.fromkeys(DTYPES, 0.0)
    results = {}
    for _ in range(repeat):
        for name, dtype in DTYPES.items():
            fastest[name] = max(fastest[name], product_speed(dtype))
        for name, call in calls.items():
            begun = time.process_time()
            results[name] = call(deltas)
            seconds[name] = min(seconds[name], time.process_time() - begun)
    need = operations(method, *deltas.shape)
    found: dict[str, Any] = {"operations_float64": need.float64, "operations_float32": need.float32}
    found["floor_s"] = need.float64 / fastest["float64"] + need.float32 / fastest["float32"]
    found["library_floor_s"] = found["floor_s"] + sum(
        eigen_seconds(size) - eigen(size, kept) / fastest["float64"] for size, kept in need.decomposed
    )
    if former:
        before = results["former_cpu_s"]
        found["apart"] = float((results["cpu_s"] - before).norm() / before.norm())
    return found | seconds


def totals(matrices: list[dict[str, Any]], threads: int) -> dict[str, dict[str, float]]:
    """Seconds of all matrices of the model, on all threads; and the ratio."""
    found: dict[str, dict[str, float]] = {}
    for row in matrices:
        total = found.setdefault(row["method"], {})
        for name in ("floor_s", "library_floor_s", "cpu_s", "former_cpu_s"):
            if name in row:
                short = name.replace("cpu_s", "s")
                total[short] = total.get(short, 0.0) + row[name] * row["count"] / threads
    for total in found.values():
        total["ratio"] = total["s"] / total["floor_s"]
    return found


def methods_of(source: Path) -> dict[str, Any]:
    """The methods' functions as a checkout has them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "smelt"]:
        del sys.modules[name]
    sys.path.insert(0, str(source))
    try:
        return {name: getattr(importlib.import_module(f"smelt.methods.subspace.{name}"), name) for name in OPERATIONS}
    finally:
        sys.path.remove(str(source))


def whole(method: str, folder: Path, spec: Spec, source: Path) -> dict[str, Any]:
    """A merge to a folder, from the start of the interpreter to the last file."""
    inputs, out = [folder / name for name in spec.models], folder / "out"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import smelt; "
        "smelt.merge(sys.argv[5:], base=sys.argv[4], method=sys.argv[2], out=sys.argv[3])"
    )
    taken = measure([sys.executable, "-c", code, source, method, out, *inputs], output=out, inputs=inputs)
    names = ("wall_s", "user_s", "system_s", "other_cpu_s", "peak_anon_bytes", "error")
    return {name: getattr(taken, name) for name in names}


if __name__ == "__main__":
    main()
