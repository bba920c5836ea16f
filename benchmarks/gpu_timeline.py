"""The time line of one `smelt merge` on a device: when each kind of work began and ended, and how long it took in all.

    python benchmarks/gpu_timeline.py RECIPE.json [--device cuda] [--out timeline.json]
    python benchmarks/gpu_timeline.py --part elements|matrices [--method ties]   # models of gpu_processes.py

In: a recipe (gpu_processes.py leaves them beside its models). Out: a table, the last thing printed, in the order in
which things began. *Busy* is the time in which at least one thread did it, *threads* the seconds of all threads. The
process starts at 0; what Python took before this script is not in it.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse  # noqa: E402 - the clock starts before anything is loaded
import functools  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from result_file import save  # noqa: E402


class TimeLine:
    """Spans of work by name."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float, int]] = []

    def watch(self, owner: Any, name: str, what: str) -> None:
        """Note every call of a function or method from now on."""
        inside = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
        if inside is None:
            print(f"(there is no {name} any more: {what} is not in the table)", file=sys.stderr)
            return
        kind = type(inside) if isinstance(inside, staticmethod | classmethod) else None
        function = inside.__func__ if kind else inside

        @functools.wraps(function)
        def timed(*words: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*words, **named)
            finally:
                self.spans.append((what, began - BEGAN, time.perf_counter() - BEGAN, threading.get_ident()))

        setattr(owner, name, kind(timed) if kind else timed)

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for what in dict.fromkeys(name for name, *_ in sorted(self.spans, key=lambda one: one[1])):
            some = sorted((began, ended) for name, began, ended, _ in self.spans if name == what)
            threads = len({thread for name, _, _, thread in self.spans if name == what})
            total = sum(ended - began for began, ended in some)
            row = {"what": what, "from": some[0][0], "to": max(ended for _, ended in some), "busy": _busy(some)}
            found.append({**row, "threads_s": total, "threads": threads, "calls": len(some)})
        return found


def _busy(spans: list[tuple[float, float]]) -> float:
    """The length of what they cover together."""
    total, until = 0.0, 0.0
    for began, ended in spans:
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def watch_all(line: TimeLine) -> None:
    """What is there before torch; the rest when the executor is made, since it loads torch."""
    from smelt.engine.plan import ready
    from smelt.engine.pool import ModelPool
    from smelt.engine.run import device
    from smelt.engine.run.executor import PlanExecutor
    from smelt.engine.run.gpu import start
    from smelt.engine.sink.output import OutputFolder
    from smelt.engine.sink.sink import FolderSink
    from smelt.files.hashing.input_hashes import InputHashes

    line.watch(start, "_load_torch", "start: import torch")
    line.watch(start, "_make_context", "start: context (driver)")
    line.watch(start, "_use", "start: first tensor, first pinned memory")
    line.watch(start, "_load_solvers", "start: solvers")
    line.watch(start, "_load_triton", "start: import triton")
    line.watch(ModelPool, "open", "open models")
    line.watch(ready, "make_ready", "plan")
    line.watch(device, "wait", "wait for the start")
    line.watch(device, "found_device", "check the device (with waiting)")
    line.watch(InputHashes, "result", "hash what was not read of the inputs")
    line.watch(FolderSink, "complete", "write headers, hash what was not written here")
    line.watch(OutputFolder, "complete", "complete the folder")
    original = PlanExecutor.__init__

    def init(self: Any, *words: Any, **named: Any) -> None:
        began = time.perf_counter()
        if named.get("device", "cpu") != "cpu" or "torch" in sys.modules:  # else they would be loaded for this alone
            _watch_torch(line)
        line.spans.append(("import of the backends", began - BEGAN, time.perf_counter() - BEGAN, 0))
        began = time.perf_counter()
        original(self, *words, **named)
        line.spans.append(("make the backends", began - BEGAN, time.perf_counter() - BEGAN, 0))

    PlanExecutor.__init__ = init  # type: ignore[method-assign]
    line.watch(PlanExecutor, "run", "run the plan")
    line.watch(FolderSink, "write", "write blocks")


def _watch_torch(line: TimeLine) -> None:
    from smelt.engine.run.eager import EagerBackend
    from smelt.engine.run.gpu.backend import GpuBackend
    from smelt.engine.run.gpu.launch import TensorRun
    from smelt.engine.run.gpu.stream import BlockBuffer
    from smelt.engine.run.pipeline import PipelineRunner

    line.watch(BlockBuffer, "allocate", "kernels: buffers")
    line.watch(GpuBackend, "_fill", "kernels: read")
    line.watch(TensorRun, "feed", "kernels: launch (the first make kernels)")
    line.watch(BlockBuffer, "is_finite", "kernels: wait for the GPU")
    line.watch(EagerBackend, "_read", "torch: read")
    line.watch(EagerBackend, "_read_there", "torch: read and send")
    line.watch(EagerBackend, "_load_statistics", "torch: read statistics")
    line.watch(PipelineRunner, "merge", "torch: stages")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("recipe", type=Path, nargs="?")
    words.add_argument("--part", choices=["elements", "matrices"])
    words.add_argument("--method", default=None, help="with --part: ties, or tsv")
    words.add_argument("--size", default=None)
    words.add_argument("--device", default="cuda")
    words.add_argument("--threads", type=int)
    words.add_argument("--out", type=Path)
    given = words.parse_args()
    recipe = given.recipe or _found(given)
    target = Path(tempfile.mkdtemp(dir=recipe.parent)) / "out"
    line = TimeLine()
    watch_all(line)
    import smelt

    try:
        smelt.merge(recipe, out=target, device=given.device, threads=given.threads)
    finally:
        whole = time.perf_counter() - BEGAN
        shutil.rmtree(target.parent, ignore_errors=True)
    rows = line.rows()
    save(given.out, {"recipe": recipe.name, "device": given.device, "seconds": whole, "rows": rows})
    print(f"{recipe.name} on {given.device}: {whole:.2f} s")
    print(f"{'what':44} {'from':>7} {'to':>7} {'busy':>7} {'threads':>8} {'calls':>7}")
    for row in rows:
        print(
            f"{row['what']:44} {row['from']:7.2f} {row['to']:7.2f} {row['busy']:7.2f} {row['threads_s']:8.2f} "
            f"{row['calls']:7d}"
        )


def _found(given: argparse.Namespace) -> Path:
    """A recipe that gpu_processes.py left beside its models, in the newest folder of that part."""
    if given.part is None:
        raise SystemExit("give a recipe, or --part elements or matrices after gpu_processes.py has run")
    name = given.method or {"elements": "ties", "matrices": "tsv"}[given.part]
    roots = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    pattern = f"smelt-gpu-processes/{given.part}-{given.size or '*'}/{name}.json"
    known = sorted((file for root in roots for file in root.glob(pattern)), key=lambda file: file.stat().st_mtime)
    if not known:
        raise SystemExit(f"run gpu_processes.py {given.part} first: there is no recipe of {name}")
    return known[-1]


if __name__ == "__main__":
    main()
