"""Whole merges from the page cache through a device into a folder: how near they come to the link.

In: checkpoints, a device, its bandwidths. Out: a row for each method and way: seconds of the whole call, of the
streaming part (without opening, planning, hashing what is left and completing), of waiting for the output's hash, and
of streaming to nowhere; bytes over the link and their floor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import smelt
from smelt.engine.merge import planned
from smelt.engine.request import read_request
from smelt.engine.run.executor import PlanExecutor
from smelt.engine.run.gpu.backend import GpuBackend
from smelt.engine.sink.sink import FolderSink, Sink
from smelt.system.progress import Progress

METHODS: dict[str, Any] = {
    "average": "average",
    "task_arithmetic": {"task_arithmetic": {"scale": 0.3}},
    "dare_linear": [{"dare": {"density": 0.2}}, {"task_arithmetic": {"scale": 0.3}}],
    "dare_ties": [{"dare": {"density": 0.2}}, {"ties": {"density": 1.0}}],
    "model_stock": "model_stock",
    "ties": {"ties": {"density": 0.2}},
}
WAYS = {
    "kernels": {"SMELT_KERNELS": "1"},
    "eager": {"SMELT_FUSED": "0"},
}


class _Counted:
    """How many bytes the fused way sends and what the executor takes, while this is entered."""

    def __enter__(self) -> _Counted:
        self.sent, self.seconds, self.hashing = 0, 0.0, 0.0
        self._read, self._run, self._complete = GpuBackend._fill, PlanExecutor.run, FolderSink.complete
        counted = self

        def read(item: Any, start: int, room: Any) -> None:
            counted.sent += sum(len(part) for part, _ in zip(room.on_host, item.all_taps, strict=False))
            counted._read(item, start, room)

        def run(executor: Any, *words: Any) -> None:
            began = time.perf_counter()
            counted._run(executor, *words)
            counted.seconds += time.perf_counter() - began

        def complete(sink: Any, metadata: Any) -> Any:
            began = time.perf_counter()
            found = counted._complete(sink, metadata)
            counted.hashing += time.perf_counter() - began
            return found

        GpuBackend._fill, PlanExecutor.run = staticmethod(read), run  # type: ignore[method-assign]
        FolderSink.complete = complete  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        GpuBackend._fill, PlanExecutor.run = staticmethod(self._read), self._run  # type: ignore[method-assign]
        FolderSink.complete = self._complete  # type: ignore[method-assign]


class _Nowhere(Sink):
    """A sink that keeps nothing: what reading, the link and the merge take without files to write."""

    def write(self, item: Any, start: int, values: memoryview) -> None: ...

    def done(self, item: Any) -> None: ...


def merges(
    folder: Path, device: str, link: dict[str, float], tries: int, threads: int | None
) -> Iterator[dict[str, Any]]:
    """A row for each method and way. The first merge of all warms up and is not told of."""
    models = {path.name: str(path) for path in sorted(folder.glob("ft*"))}
    pool: Any = {"models": models, "base": str(folder / "base")}
    _merge(pool, "average", folder, device, threads)
    for name, method in METHODS.items():
        for way, environment in WAYS.items():
            given = pool if name != "average" else {"models": models, "base": None}
            with _Environment(environment):
                yield {"method": name, "way": way} | _row(given, method, folder, device, link, tries, threads)


def _row(
    pool: Any, method: Any, folder: Path, device: str, link: dict[str, float], tries: int, threads: int | None
) -> Any:
    rows = []
    for _ in range(tries):
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        with _Counted() as counted:
            began = time.perf_counter()
            done = _merge(pool, method, folder, device, threads)
            took = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() if device.startswith("cuda") else 0
        rows.append(
            {"call_s": took, "stream_s": counted.seconds, "sent_bytes": counted.sent, "peak_device_bytes": peak}
        )
        rows[-1] |= {"out_bytes": done.bytes, "hash_wait_s": counted.hashing}
        rows[-1]["nowhere_s"] = _nowhere(pool, method, device, threads)
    best = {name: min(row[name] for row in rows) for name in rows[0]}
    if best["sent_bytes"]:
        floor = best["sent_bytes"] / link["to"]
        best |= {"link_floor_s": floor, "ratio": best["stream_s"] / floor, "nowhere_ratio": best["nowhere_s"] / floor}
    return best


def _merge(pool: Any, method: Any, folder: Path, device: str, threads: int | None) -> Any:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    return smelt.merge(pool["models"], base=pool["base"], method=method, out=out, device=device, threads=threads)


def _nowhere(pool: Any, method: Any, device: str, threads: int | None) -> float:
    recipe, relative_to, _ = read_request(pool["models"], pool["base"], method, {})
    with planned(recipe, relative_to=relative_to) as ready, Progress(True) as progress:
        cores = threads or len(os.sched_getaffinity(0))
        executor = PlanExecutor(ready.plan, _Nowhere(), progress, threads=cores, room=4 << 30, device=device)
        began = time.perf_counter()
        executor.run()
        return time.perf_counter() - began


def starts(device: str) -> dict[str, float]:
    """Seconds of new processes that do next to nothing: what every command pays."""
    words = {
        "python": "pass",
        "import_torch": "import torch",
        "use_device": f"import torch; torch.zeros(1, device={device!r}).item()",
        "import_way": f"import torch; torch.zeros(1, device={device!r}).item(); import smelt.engine.run.gpu.backend",
    }
    found = {}
    for name, code in words.items():
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        found[name] = time.perf_counter() - began
    return found


def reading(folder: Path, device: str, threads: int) -> dict[str, Any]:
    """Bytes per second of `threads` threads that read files into pinned memory, 4 MB at a time, and do nothing else."""
    files = [path for model in sorted(folder.glob("ft*")) for path in model.glob("*.safetensors")]
    jobs = [(path, at) for path in files for at in range(0, path.stat().st_size, 1 << 22)]
    local = threading.local()

    def read(job: tuple[Path, int]) -> int:
        if not hasattr(local, "room"):
            local.room = torch.zeros(1 << 22, dtype=torch.uint8, pin_memory=device.startswith("cuda"))
        descriptor = os.open(job[0], os.O_RDONLY)
        try:
            return os.preadv(descriptor, [local.room.numpy().data], job[1])
        finally:
            os.close(descriptor)

    with ThreadPoolExecutor(threads) as pool:
        sum(pool.map(read, jobs))
        began = time.perf_counter()
        total = sum(pool.map(read, jobs))
        return {"threads": threads, "per_s": total / (time.perf_counter() - began)}


def command(folder: Path, device: str) -> float:
    """Seconds of the whole command in a new process, with all that it loads."""
    recipe = folder / "recipe.yaml"
    models = "".join(f"    {path.name}: {path}\n" for path in sorted(folder.glob("ft*")))
    recipe.write_text(f"pool:\n  base: {folder / 'base'}\n  models:\n{models}merge: task_arithmetic\n")
    shutil.rmtree(folder / "out", ignore_errors=True)
    words = ["merge", str(recipe), "-o", str(folder / "out"), "--device", device, "--quiet"]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "from smelt.cli import main; main()", *words], check=True)
    return time.perf_counter() - began


class _Environment:
    """Variables that are set for a while."""

    def __init__(self, values: dict[str, str]):
        self._values = values

    def __enter__(self) -> None:
        self._before = {name: os.environ.pop(name, None) for name in ("SMELT_KERNELS", "SMELT_FUSED")}
        os.environ.update(self._values)

    def __exit__(self, *error: object) -> None:
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
